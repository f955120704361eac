//! Protection against escalation: a user can only grant rights that it has.

use kopf_sandbox_schema::object::meta;
use kopf_sandbox_schema::rights::{self, Access, Action, Rule, Sources};
use serde_json::{Value, json};

use super::Cluster;
use super::authorize::GROUP;
use crate::call::Call;
use crate::status::{ApiError, Result};

impl Cluster {
    /// Rejects roles and bindings that grant rights which the user does not have. `old` is `None`
    /// for new objects.
    ///
    /// Changes of labels and annotations are checked as well: a label can add the rules of a role
    /// to an aggregated one.
    pub(crate) fn check_escalation(
        &self,
        call: &Call,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<()> {
        if !self.rbac || &*call.kind.group != GROUP || call.user.is_master() {
            return Ok(());
        }
        if old.is_some_and(|old| is_same_except_ownership(object, old)) {
            return Ok(());
        }
        match &*call.kind.plural {
            "roles" | "clusterroles" => self.check_role(call, object, old),
            _ => self.check_binding(call, object, &self.roles_and_bindings()),
        }
    }

    fn check_role(&self, call: &Call, role: &Value, old: Option<&Value>) -> Result<()> {
        if self.has_right(call, "escalate", &call.kind.plural, &call.name) {
            return Ok(());
        }
        self.check_granted(call, role, &rights::rules(role))?;
        let aggregates = aggregates(role) || old.is_some_and(aggregates);
        if aggregates && !self.missing_rights(call, &full_authority()).is_empty() {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            return Err(ApiError::forbidden(&call.kind, meta::name(role), why));
        }
        Ok(())
    }

    fn check_binding(&self, call: &Call, binding: &Value, sources: &Sources) -> Result<()> {
        let text = |pointer: &str| binding.pointer(pointer).and_then(Value::as_str);
        let role = match text("/roleRef/kind") {
            Some("ClusterRole") => "clusterroles",
            _ => "roles",
        };
        let name = text("/roleRef/name").unwrap_or_default();
        if self.has_right(call, "bind", role, name) {
            return Ok(());
        }
        // A role that is created later could have any rules. Real servers name the resource of the
        // request, not that of the role.
        let rules = sources.rules_of(binding);
        let rules = rules.ok_or_else(|| ApiError::not_found(&call.kind, name))?;
        self.check_granted(call, binding, &rules)
    }

    fn check_granted(&self, call: &Call, object: &Value, granted: &[Rule]) -> Result<()> {
        let missing = self.missing_rights(call, granted);
        if missing.is_empty() {
            return Ok(());
        }
        let why = rights::escalation(&call.user, &missing);
        Err(ApiError::forbidden(&call.kind, meta::name(object), &why))
    }

    fn missing_rights(&self, call: &Call, granted: &[Rule]) -> Vec<Rule> {
        let namespace = call.namespace.as_deref();
        self.rights().missing(&call.user, namespace, granted)
    }

    fn has_right(&self, call: &Call, verb: &str, resource: &str, name: &str) -> bool {
        let access = Access {
            verb,
            group: GROUP,
            resource,
            namespace: call.namespace.as_deref(),
            name,
            ..Access::default()
        };
        self.allows(&call.user, Action::Resource(access)).is_some()
    }
}

/// Returns `true` if a change concerns at most the fields that the garbage collector writes.
fn is_same_except_ownership(object: &Value, old: &Value) -> bool {
    let compared = |object: &Value| {
        let mut object = object.clone();
        let metadata = meta::metadata(&mut object);
        for field in ["ownerReferences", "finalizers", "managedFields"] {
            metadata.remove(field);
        }
        object
    };
    compared(object) == compared(old)
}

/// Returns `true` if a cluster role collects the rules of others.
fn aggregates(role: &Value) -> bool {
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors");
    selectors
        .and_then(Value::as_array)
        .is_some_and(|selectors| !selectors.is_empty())
}

/// Returns the rules of an administrator of the whole cluster.
fn full_authority() -> Vec<Rule> {
    rights::rules(&json!({ "rules": [
        { "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] },
        { "verbs": ["*"], "nonResourceURLs": ["*"] },
    ]}))
}
