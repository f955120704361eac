//! The kinds that can be asked about, as the cluster has them now.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kopf_core::admission::served;
use kopf_core::resource::Resource;
use tokio::sync::watch;

use crate::invocation::Registry;
use crate::observation::Resources;

/// The kinds that handlers for admission are for.
pub(super) type Served = Arc<BTreeSet<Arc<Resource>>>;

/// Finds them anew only when the cluster has changed: they are asked for with every request.
pub(super) struct Kinds {
    registry: Arc<Registry>,
    resources: watch::Receiver<Option<Resources>>,
    found: Mutex<Option<(Resources, Served)>>,
}

impl Kinds {
    pub(super) fn new(
        registry: Arc<Registry>,
        resources: watch::Receiver<Option<Resources>>,
    ) -> Self {
        Self {
            registry,
            resources,
            found: Mutex::new(None),
        }
    }

    /// Those of now; none before the cluster is known.
    pub(super) fn served(&self) -> Served {
        let Some(resources) = self.resources.borrow().clone() else {
            return Served::default();
        };
        let lock = || self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, served)) = &*lock()
            && Arc::ptr_eq(known, &resources)
        {
            return Arc::clone(served);
        }
        // Functions of users are asked here, so it is not done under the lock.
        let found = Arc::new(served(self.registry.handlers(), &resources));
        *lock() = Some((resources, Arc::clone(&found)));
        found
    }
}

impl fmt::Debug for Kinds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kinds")
    }
}
