//! Authorization by roles and bindings.

use std::sync::Arc;

use kopf_sandbox_schema::rights::UserInfo;
use kopf_sandbox_schema::rights::{self, Action, Authorizer, Rights, Sources};
use serde_json::{Value, json};

use super::Cluster;
use crate::status::{ApiError, Reason, Result};

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";

impl Cluster {
    pub fn rights(&self) -> Arc<Rights> {
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

    pub(super) fn roles_and_bindings(&self) -> Sources {
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

    /// Returns the current rights, for several checks.
    pub(crate) fn authorizer(&self) -> Authorizer {
        Authorizer(self.rbac.then(|| self.rights()))
    }

    /// Returns the reason why an action is allowed, or `None` if it is not.
    pub(crate) fn allows(&self, user: &UserInfo, action: Action<'_>) -> Option<String> {
        self.authorizer().allows(user, action)
    }

    /// Rejects an action that the user has no right to.
    pub(crate) fn authorize(&self, user: &UserInfo, action: Action<'_>) -> Result<()> {
        if self.allows(user, action).is_some() {
            return Ok(());
        }
        Err(forbidden(
            action,
            &rights::rejection(&user.username, action),
        ))
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
    ApiError::new(403, Reason::Forbidden, message).with_details(details)
}
