//! The patch of one cycle, and the cell of the frontend.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use kopf_core::patch::Patch;
use kopf_core::sync::Mutex;

/// The patch of one cycle, shared by all its handlers. Cheap to clone: clones share the patch.
///
/// It has two parts. One is changed in place, by the engine and by frontends that use [`Patch`]
/// directly. The other belongs to a frontend with its own type of patches: after each call, the
/// frontend [replaces](Self::replace) this part as a whole, so that deletions from its patch take
/// effect. Both parts are sent together; if both set a field, the frontend's part wins.
///
/// ```
/// use kopf_core::patch::Patch;
/// use kopf_engine::invocation::SharedPatch;
/// use serde_json::json;
///
/// let patch = SharedPatch::default();
/// patch.with(|patch| patch.set(&"status.engine".into(), json!(1)));
/// let mut own = Patch::default();
/// own.set(&"status.front".into(), json!(1));
/// patch.replace(own.clone());
/// own.remove_key(&"status.front".into());
/// own.set(&"status.front2".into(), json!(2));
/// patch.replace(own);
/// assert_eq!(patch.take().merge["status"], json!({"engine": 1, "front2": 2}));
/// ```
#[derive(Clone, Default)]
pub struct SharedPatch(Arc<Inner>);

#[derive(Default)]
struct Inner {
    parts: Mutex<Parts>,
    cell: OnceLock<Arc<dyn Any + Send + Sync>>,
}

#[derive(Debug, Default)]
struct Parts {
    shared: Patch,
    front: Option<Box<Patch>>,
}

impl SharedPatch {
    /// Creates a shared patch from this patch.
    pub fn new(patch: Patch) -> Self {
        Self(Arc::new(Inner {
            parts: Mutex::new(Parts {
                shared: patch,
                front: None,
            }),
            cell: OnceLock::new(),
        }))
    }

    /// Reads or changes the shared part. Nested calls deadlock.
    pub fn with<R>(&self, action: impl FnOnce(&mut Patch) -> R) -> R {
        self.parts(|parts| action(&mut parts.shared))
    }

    /// Replaces the frontend's part.
    pub fn replace(&self, patch: Patch) {
        let former = self.parts(|parts| parts.front.replace(Box::new(patch)));
        // Dropped without the lock, because dropping functions can run any code.
        drop(former);
    }

    /// Returns a copy of both parts.
    pub(crate) fn snapshot(&self) -> Patch {
        self.parts(|parts| {
            let mut patch = parts.shared.clone();
            if let Some(front) = &parts.front {
                patch.merge_from((**front).clone());
            }
            patch
        })
    }

    /// Takes the content of both parts. Later changes are never sent.
    pub fn take(&self) -> Patch {
        let parts = self.parts(std::mem::take);
        let mut patch = parts.shared;
        if let Some(front) = parts.front {
            patch.merge_from(*front);
        }
        patch
    }

    /// Returns the frontend's cell of this cycle, and fills it with `make` if it is empty.
    ///
    /// All handlers and sub-handlers of one cycle share the cell; each attempt of a daemon or timer
    /// has its own. A frontend caches objects there that it would otherwise create for each call,
    /// such as the converted body.
    pub fn cell(
        &self,
        make: impl FnOnce() -> Arc<dyn Any + Send + Sync>,
    ) -> &Arc<dyn Any + Send + Sync> {
        self.0.cell.get_or_init(make)
    }

    fn parts<R>(&self, action: impl FnOnce(&mut Parts) -> R) -> R {
        // A handler that panicked during a change has left a valid, possibly incomplete patch.
        let mut parts = self.0.parts.lock();
        action(&mut parts)
    }
}

impl fmt::Debug for SharedPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts(|parts| parts.fmt(f))
    }
}
