//! Keys of objects in indices.

use std::fmt;

use kopf_core::resource::Resource;

use crate::identity::Identity;

/// The owner of entries of an index. One index can contain objects of several resources.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ObjectKey(Identity);

impl ObjectKey {
    /// Creates a key. Uids are unique in a cluster; names only within one resource.
    pub(crate) fn new(identity: &Identity, resource: &Resource) -> Self {
        Self(match identity {
            Identity::Uuid(_) => identity.clone(),
            Identity::Text(text) => Identity::Text(format!("{resource}//{text}").into()),
        })
    }

    /// Returns a unique key without an object, for indices in tests.
    pub fn numbered(number: usize) -> Self {
        Self(Identity::Text(format!("#{number}").into()))
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
