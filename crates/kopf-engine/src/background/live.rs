//! The object as it is now, for those who run beside it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kopf_core::body::Body;

/// The newest known version of an object. Cheap to clone: clones show the same object.
#[derive(Clone)]
pub struct LiveBody(Arc<Mutex<Body>>);

impl LiveBody {
    pub(crate) fn new(body: Body) -> Self {
        Self(Arc::new(Mutex::new(body)))
    }

    /// The object as it is now; the next call may give a newer one.
    pub fn get(&self) -> Body {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn set(&self, body: Body) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = body;
    }
}

impl fmt::Debug for LiveBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LiveBody({})", self.get().reference())
    }
}
