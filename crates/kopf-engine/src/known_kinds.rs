//! Cache of discovered resources by the kinds of manifests.

use std::collections::HashMap;
use std::sync::Arc;

use kopf_core::children::Kind;
use kopf_core::resource::Resource;
use kopf_core::sync::Mutex;

/// A cache of resources. Cheap to clone: clones share it. Bounded by the resources that the cluster
/// serves.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownKinds(Arc<Mutex<HashMap<Kind, Arc<Resource>>>>);

impl KnownKinds {
    pub(crate) fn get(&self, kind: &Kind) -> Option<Arc<Resource>> {
        self.0.lock().get(kind).cloned()
    }

    pub(crate) fn insert(&self, kind: Kind, resource: &Arc<Resource>) {
        self.0.lock().insert(kind, Arc::clone(resource));
    }

    pub(crate) fn forget(&self, kind: &Kind) {
        self.0.lock().remove(kind);
    }
}
