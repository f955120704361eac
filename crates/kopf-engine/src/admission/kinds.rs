//! Resources with admission handlers, as currently discovered.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use kopf_core::admission::served;
use kopf_core::resource::Resource;
use kopf_core::sync::Mutex;
use tokio::sync::watch;

use crate::invocation::Registry;
use crate::observation::Resources;

/// Resources with admission handlers.
pub(super) type Served = Arc<BTreeSet<Arc<Resource>>>;

/// Cache of the resources, which every review needs. Refreshed after discoveries.
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

    /// Returns the current resources; empty before the first discovery.
    pub(super) fn served(&self) -> Served {
        let Some(resources) = self.resources.borrow().clone() else {
            return Served::default();
        };
        let lock = || self.found.lock();
        if let Some((known, served)) = &*lock()
            && Arc::ptr_eq(known, &resources)
        {
            return Arc::clone(served);
        }
        // Selectors can be functions of users, so they are not called under the lock.
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
