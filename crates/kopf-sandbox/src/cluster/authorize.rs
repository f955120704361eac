//! Authorization by roles and bindings.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Cluster;
use crate::access::UserInfo;
use crate::object::meta;
use crate::rights::{self, Access, Action, Rights, Sources};
use crate::status::{ApiError, Result};
use crate::verbs::Call;

const GROUP: &str = "rbac.authorization.k8s.io";

impl Cluster {
    pub(crate) fn rights(&self) -> Arc<Rights> {
        Arc::clone(&self.rights.read())
    }

    /// Rebuilds the rights from the stored roles and bindings.
    pub(super) fn read_rights(&self) {
        if !self.rbac {
            return;
        }
        // Reading under the lock ensures that the last of concurrent changes reads the last state.
        let mut rights = self.rights.write();
        *rights = Arc::new(Rights::read(&self.roles_and_bindings()));
    }

    fn roles_and_bindings(&self) -> Sources {
        rights::sources(|plural| {
            let listed = self.store.list(&format!("{GROUP}/{plural}"), None);
            listed.objects.iter().map(|stored| stored.value()).collect()
        })
    }

    /// Stores the default roles and bindings of a cluster.
    pub(super) fn establish_roles(&self) {
        let plurals = rights::plurals();
        for object in rights::defaults() {
            let kind = object
                .get("kind")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if let Some(plural) = plurals.get(kind) {
                self.establish(GROUP, plural, object.clone());
            }
        }
        self.read_rights();
    }

    /// Returns the reason why an action is allowed, or `None` if it is not.
    pub(crate) fn allows(&self, user: &UserInfo, action: Action<'_>) -> Option<String> {
        if self.rbac {
            self.rights().allows(user, action)
        } else {
            Some("RBAC is disabled in this sandbox".to_owned())
        }
    }

    /// Rejects an action that the user has no right to.
    pub(crate) fn authorize(&self, user: &UserInfo, action: Action<'_>) -> Result<()> {
        if !self.rbac || self.allows(user, action).is_some() {
            return Ok(());
        }
        Err(forbidden(
            action,
            &rights::rejection(&user.username, action),
        ))
    }

    /// Rejects roles and bindings that grant rights which the user does not have.
    pub(crate) fn check_escalation(&self, call: &Call, object: &Value) -> Result<()> {
        if !self.rbac || &*call.kind.group != GROUP || call.user.is_master() {
            return Ok(());
        }
        let namespace = call.namespace.as_deref();
        let may = |verb: &str, resource: &str, name: &str| {
            let access = Access {
                verb,
                group: GROUP,
                resource,
                namespace,
                name,
                ..Access::default()
            };
            self.allows(&call.user, Action::Resource(access)).is_some()
        };
        let sources = self.roles_and_bindings();
        let plural = &*call.kind.plural;
        let granted = match plural {
            "roles" | "clusterroles" => {
                if may("escalate", plural, meta::name(object)) {
                    return Ok(());
                }
                sources.aggregated(object)
            }
            _ => {
                let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
                let role = match text("/roleRef/kind") {
                    Some("ClusterRole") => "clusterroles",
                    _ => "roles",
                };
                let name = text("/roleRef/name").unwrap_or_default();
                if may("bind", role, name) {
                    return Ok(());
                }
                let Some(rules) = sources.rules_of(object) else {
                    // A role that is created later could have any rules. Real servers name the
                    // resource of the request, not that of the role.
                    return Err(ApiError::not_found(&call.kind, name));
                };
                rules
            }
        };
        let missing = self.rights().missing(&call.user, namespace, &granted);
        if missing.is_empty() {
            return Ok(());
        }
        let why = rights::escalation(&call.user, &missing);
        Err(ApiError::forbidden(&call.kind, meta::name(object), &why))
    }
}

fn forbidden(action: Action<'_>, why: &str) -> ApiError {
    let (message, details) = match action {
        Action::Url { .. } => (format!("forbidden: {why}"), json!({})),
        Action::Resource(access) => {
            let resource = match access.group {
                "" => access.resource.to_owned(),
                group => format!("{}.{group}", access.resource),
            };
            let mut details = json!({ "kind": access.resource });
            if !access.group.is_empty() {
                details["group"] = json!(access.group);
            }
            let subject = if access.name.is_empty() {
                resource
            } else {
                details["name"] = json!(access.name);
                format!("{resource} {:?}", access.name)
            };
            (format!("{subject} is forbidden: {why}"), details)
        }
    };
    ApiError {
        code: 403,
        reason: "Forbidden",
        message,
        details: Some(details),
        retry_after: None,
        verbatim: None,
    }
}
