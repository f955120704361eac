//! The patch of one cycle, and the front's cell beside it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kopf_core::patch::Patch;

/// The patch of one cycle, shared by all its handlers. Cheap to clone: clones are the same patch.
///
/// It has two parts. One is changed in place, by the engine and by fronts whose patches are native.
/// The other belongs to a front which has a patch of its own type: after each call, the front
/// [replaces](Self::replace) this part as a whole, so that deletions from its patch count. Both
/// are written together; where both set a field, the front's part wins.
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
    /// Starts with this patch.
    pub fn new(patch: Patch) -> Self {
        Self(Arc::new(Inner {
            parts: Mutex::new(Parts {
                shared: patch,
                front: None,
            }),
            cell: OnceLock::new(),
        }))
    }

    /// Reads or changes the shared part. Must not be nested: the second call would wait forever.
    pub fn with<R>(&self, action: impl FnOnce(&mut Patch) -> R) -> R {
        self.parts(|parts| action(&mut parts.shared))
    }

    /// Replaces the front's part.
    pub fn replace(&self, patch: Patch) {
        let former = self.parts(|parts| parts.front.replace(Box::new(patch)));
        // Outside of the lock: functions in the patch can run any code when they are dropped.
        drop(former);
    }

    /// Takes everything out of both parts. Later changes are never written.
    pub fn take(&self) -> Patch {
        let parts = self.parts(std::mem::take);
        let mut patch = parts.shared;
        if let Some(front) = parts.front {
            patch.merge_from(*front);
        }
        patch
    }

    /// Returns the front's cell of this cycle, and fills it with `make` if it is empty.
    ///
    /// All handlers and sub-handlers of one cycle have the same cell; each attempt of a daemon or
    /// a timer has one of its own. A front keeps there what it would otherwise make for each call,
    /// such as the converted body.
    pub fn cell(
        &self,
        make: impl FnOnce() -> Arc<dyn Any + Send + Sync>,
    ) -> &Arc<dyn Any + Send + Sync> {
        self.0.cell.get_or_init(make)
    }

    fn parts<R>(&self, action: impl FnOnce(&mut Parts) -> R) -> R {
        // A handler that panicked amid a change has left a valid, if incomplete, patch.
        let mut parts = self.0.parts.lock().unwrap_or_else(PoisonError::into_inner);
        action(&mut parts)
    }
}

impl fmt::Debug for SharedPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts(|parts| parts.fmt(f))
    }
}
