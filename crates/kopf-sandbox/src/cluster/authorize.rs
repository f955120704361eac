//! Checks requests against roles and bindings.

use std::sync::{Arc, PoisonError};

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
        Arc::clone(&self.rights.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Computes the rights from the roles and bindings as they are stored now.
    pub(super) fn read_rights(&self) {
        if !self.rbac {
            return;
        }
        // Under the lock: of two concurrent changes, the later one reads the later state.
        let mut rights = self.rights.write().unwrap_or_else(PoisonError::into_inner);
        *rights = Arc::new(Rights::read(&self.roles_and_bindings()));
    }

    fn roles_and_bindings(&self) -> Sources {
        rights::sources(|plural| {
            let listed = self.store.list(&format!("{GROUP}/{plural}"), None);
            listed.objects.iter().map(|stored| stored.value()).collect()
        })
    }

    /// Stores the roles and bindings that every cluster has.
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

    /// Returns why a user may do something. `None`: the user may not.
    pub(crate) fn allows(&self, user: &UserInfo, action: Action<'_>) -> Option<String> {
        if self.rbac {
            self.rights().allows(user, action)
        } else {
            Some("the sandbox lets every known user do everything".to_owned())
        }
    }

    /// Rejects what a user may not do.
    pub(crate) fn authorize(&self, user: &UserInfo, action: Action<'_>) -> Result<()> {
        if !self.rbac || self.allows(user, action).is_some() {
            return Ok(());
        }
        Err(forbidden(action, &rights::refusal(&user.username, action)))
    }

    /// Rejects roles and bindings by which a user would grant what the user does not have.
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
                sources.aggregated(object, 0)
            }
            _ => {
                let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
                let role = match text("/roleRef/kind") {
                    Some("ClusterRole") => "clusterroles",
                    _ => "roles",
                };
                if may("bind", role, text("/roleRef/name").unwrap_or_default()) {
                    return Ok(());
                }
                sources.rules_of(object)
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
