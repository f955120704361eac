//! Permissions that are declared in addition to those of handlers.

use std::str::FromStr;

use super::{Permission, PermissionScope};

/// Permissions for requests of the user's functions: `VERBS:RESOURCE[.GROUP][/SUBRESOURCE]`.
///
/// ```
/// use kopf_core::rights::ExtraPermission;
///
/// let extra: ExtraPermission = "create,patch:deployments.apps".parse()?;
/// assert!("deployments.apps".parse::<ExtraPermission>().is_err());
/// # Ok::<(), kopf_core::rights::ExtraPermissionError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraPermission {
    group: String,
    resource: String,
    verbs: Vec<String>,
}

/// The error of an invalid permission.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid permission {text:?}: {reason}; expected VERBS:RESOURCE[.GROUP][/SUBRESOURCE], such as \
     create,patch:deployments.apps"
)]
pub struct Error {
    text: String,
    reason: &'static str,
}

/// The verbs of Kubernetes for requests to resources.
const VERBS: [&str; 11] = [
    "*",
    "bind",
    "create",
    "delete",
    "deletecollection",
    "get",
    "impersonate",
    "list",
    "patch",
    "update",
    "watch",
];

impl ExtraPermission {
    /// Returns `true` if they allow to create objects, which can be children of handled ones.
    pub fn creates(&self) -> bool {
        let mut verbs = self.verbs.iter();
        verbs.any(|verb| matches!(verb.as_str(), "*" | "create" | "patch" | "update"))
    }

    /// Returns the permissions in these scopes.
    pub fn permissions(&self, scopes: &[PermissionScope]) -> Vec<Permission> {
        let mut permissions = Vec::new();
        for scope in scopes {
            for verb in &self.verbs {
                permissions.push(Permission {
                    scope: scope.clone(),
                    group: self.group.clone(),
                    resource: self.resource.clone(),
                    name: None,
                    verb: verb.clone(),
                });
            }
        }
        permissions
    }
}

impl FromStr for ExtraPermission {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = |reason| Error {
            text: text.to_owned(),
            reason,
        };
        let (verbs, resource) = text
            .split_once(':')
            .ok_or_else(|| wrong("there is no colon"))?;
        let verbs: Vec<String> = verbs
            .split(',')
            .map(|verb| verb.trim().to_owned())
            .collect();
        if !verbs.iter().all(|verb| VERBS.contains(&verb.as_str())) {
            return Err(wrong("there is an unknown verb"));
        }
        let (name, subresource) = match resource.trim().split_once('/') {
            Some((name, subresource)) => (name, Some(subresource)),
            None => (resource.trim(), None),
        };
        let (plural, group) = name.split_once('.').unwrap_or((name, ""));
        let is_name = |name: &str| {
            let is_known = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
            name == "*"
                || !name.is_empty()
                    && name
                        .chars()
                        .all(|char| is_known(char) || "-.".contains(char))
        };
        if !is_name(plural) || !subresource.is_none_or(is_name) {
            return Err(wrong("the resource is not a plural name in lower case"));
        }
        if !group.is_empty() && !is_name(group) {
            return Err(wrong("the API group is not a DNS name in lower case"));
        }
        let resource = match subresource {
            Some(subresource) => format!("{plural}/{subresource}"),
            None => plural.to_owned(),
        };
        Ok(Self {
            group: group.to_owned(),
            resource,
            verbs,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let extra: ExtraPermission = text.parse().unwrap();
        let permissions = extra.permissions(&[PermissionScope::Cluster]);
        permissions.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn groups_and_subresources_are_optional() {
        assert_eq!(shown("get:pods"), ["get pods cluster-wide"]);
        assert_eq!(
            shown("get, patch:deployments.apps/scale"),
            [
                "get deployments.apps/scale cluster-wide",
                "patch deployments.apps/scale cluster-wide"
            ]
        );
    }

    #[test]
    fn invalid_permissions_are_rejected_with_a_reason() {
        for (text, reason) in [
            ("pods", "no colon"),
            ("read:pods", "unknown verb"),
            (":pods", "unknown verb"),
            ("get:Pod", "lower case"),
            ("get:", "lower case"),
            ("get:pods/", "lower case"),
            ("get:pods.A", "API group"),
        ] {
            let error = text.parse::<ExtraPermission>().unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
