//! Whose entries they are.

use std::fmt;

use kopf_core::resource::Resource;

use crate::identity::Identity;

/// The object that entries of an index belong to. Objects of several kinds can be in one index.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ObjectKey(Identity);

impl ObjectKey {
    /// Uids tell all objects of a cluster apart; names only those of one kind.
    pub(crate) fn new(identity: &Identity, resource: &Resource) -> Self {
        Self(match identity {
            Identity::Uuid(_) => identity.clone(),
            Identity::Text(text) => Identity::Text(format!("{resource}//{text}").into()),
        })
    }

    /// A key that is like no key of an object: for indices that are made by hand, as in tests.
    pub fn numbered(number: usize) -> Self {
        Self(Identity::Text(format!("#{number}").into()))
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
