//! A user in the terms of Kubernetes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// The group of all authenticated users.
pub const AUTHENTICATED: &str = "system:authenticated";
/// The group of anonymous requests.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
/// The group whose members have all rights, including impersonation.
pub const MASTERS: &str = "system:masters";

/// The user that sends a request, or for whom it is sent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UserInfo {
    pub username: String,
    pub uid: String,
    pub groups: Vec<String>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl UserInfo {
    pub fn new<G: Into<String>>(
        username: impl Into<String>,
        groups: impl IntoIterator<Item = G>,
    ) -> Self {
        Self {
            username: username.into(),
            groups: groups.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }

    /// Returns the default user: the owner of the sandbox.
    pub fn administrator() -> Self {
        Self::new("kubernetes-admin", [MASTERS, AUTHENTICATED])
    }

    /// Returns the user of a service account.
    pub fn of_service_account(namespace: &str, name: &str, uid: &str) -> Self {
        Self {
            uid: uid.to_owned(),
            ..Self::new(
                format!("system:serviceaccount:{namespace}:{name}"),
                [
                    "system:serviceaccounts".to_owned(),
                    format!("system:serviceaccounts:{namespace}"),
                ],
            )
        }
    }

    /// Adds the user to the group of authenticated users.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        if !self
            .groups
            .iter()
            .any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED)
        {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// Returns `true` if the user is in `system:masters`.
    pub fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == MASTERS)
    }

    /// Returns the user as in reviews. Empty fields are omitted.
    pub fn to_json(&self) -> Value {
        let mut user = json!({});
        if !self.username.is_empty() {
            user["username"] = json!(self.username);
        }
        if !self.uid.is_empty() {
            user["uid"] = json!(self.uid);
        }
        if !self.groups.is_empty() {
            user["groups"] = json!(self.groups);
        }
        if !self.extra.is_empty() {
            user["extra"] = json!(self.extra);
        }
        user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_accounts_have_their_groups() {
        let user = UserInfo::of_service_account("ns", "robot", "u1").authenticated();
        assert_eq!(
            user.to_json(),
            json!({
                "username": "system:serviceaccount:ns:robot",
                "uid": "u1",
                "groups": [
                    "system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"
                ],
            })
        );
    }

    #[test]
    fn masters_are_identified_by_group() {
        assert!(UserInfo::new("a", ["system:masters"]).is_master());
        assert!(!UserInfo::new("system:masters", ["staff"]).is_master());
    }
}
