//! Results that are not JSON.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use kopf_core::sync::Mutex;

/// A slot for a result that is not JSON, such as credentials or entries of an index. The function
/// (or its frontend) stores it here; the engine takes it when the function has succeeded. Cheap to
/// clone: clones share the slot.
///
/// ```
/// use kopf_engine::invocation::Slot;
///
/// let slot = Slot::default();
/// slot.put("a ticket".to_owned());
/// assert_eq!(slot.take::<u64>(), None, "the result has another type and stays");
/// assert_eq!(slot.take::<String>().as_deref(), Some("a ticket"));
/// assert_eq!(slot.take::<String>(), None);
/// ```
#[derive(Clone, Default)]
pub struct Slot(Arc<Mutex<Option<Box<dyn Any + Send>>>>);

impl Slot {
    /// Stores a result, replacing the previous one.
    pub fn put<T: Send + 'static>(&self, result: T) {
        let former = self.0.lock().replace(Box::new(result));
        // Dropped without the lock, because dropping can run any code.
        drop(former);
    }

    /// Takes the result if it exists and has this type.
    pub fn take<T: Send + 'static>(&self) -> Option<T> {
        let mut slot = self.0.lock();
        match slot.take()?.downcast::<T>() {
            Ok(result) => Some(*result),
            Err(other) => {
                *slot = Some(other);
                None
            }
        }
    }
}

/// Omits the content, which can be secret.
impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Slot")
    }
}
