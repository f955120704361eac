//! One permission: a verb on a resource in a scope.

use std::fmt;

/// The extent of a permission.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PermissionScope {
    /// The whole cluster: by a ClusterRole and its binding.
    Cluster,
    /// One namespace: by a Role and its binding.
    Namespace(String),
}

/// A permission as the authorizer of Kubernetes sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permission {
    /// The extent.
    pub scope: PermissionScope,
    /// The API group; empty for the core group, `*` for all groups.
    pub group: String,
    /// The plural name, with `/subresource` for a subresource; `*` for all resources.
    pub resource: String,
    /// The name of the object. `None` for all objects.
    pub name: Option<String>,
    /// The verb, such as `list`.
    pub verb: String,
}

impl Permission {
    /// Returns the plural name and the subresource.
    pub fn resource_parts(&self) -> (&str, Option<&str>) {
        match self.resource.split_once('/') {
            Some((plural, subresource)) => (plural, Some(subresource)),
            None => (&self.resource, None),
        }
    }
}

impl fmt::Display for Permission {
    /// As in `patch kopfexamples.kopf.dev/status in the namespace "ns"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plural, subresource) = self.resource_parts();
        write!(f, "{} {plural}", self.verb)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(subresource) = subresource {
            write!(f, "/{subresource}")?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name:?}")?;
        }
        match &self.scope {
            PermissionScope::Cluster => f.write_str(" cluster-wide"),
            PermissionScope::Namespace(namespace) => write!(f, " in the namespace {namespace:?}"),
        }
    }
}
