//! Resources with admission handlers, as currently discovered.

use std::fmt;
use std::sync::Arc;

use kopf_core::admission::served;
use kopf_core::sync::Mutex;
use tokio::sync::watch;

use crate::invocation::Registry;
use crate::observation::Resources;

/// Cache of the resources with admission handlers, which every review needs. Refreshed after
/// discoveries.
pub(super) struct ServedResources {
    registry: Arc<Registry>,
    resources: watch::Receiver<Option<Resources>>,
    found: Mutex<Option<(Resources, Resources)>>,
}

impl ServedResources {
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
    pub(super) fn current(&self) -> Resources {
        let Some(resources) = self.resources.borrow().clone() else {
            return Resources::default();
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

impl fmt::Debug for ServedResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServedResources")
    }
}
