//! References to objects by name.

use std::fmt;

use kopf_core::resource::Resource;

/// A reference to an object by resource, namespace and name.
#[derive(Clone, Copy, Debug)]
pub struct ObjectRef<'a> {
    /// The resource.
    pub resource: &'a Resource,
    /// The namespace; `None` for cluster-scoped resources.
    pub namespace: Option<&'a str>,
    /// The name.
    pub name: &'a str,
}

impl fmt::Display for ObjectRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = &self.resource.singular;
        match self.namespace {
            Some(namespace) => write!(f, "{kind} {namespace}/{}", self.name),
            None => write!(f, "{kind} {}", self.name),
        }
    }
}
