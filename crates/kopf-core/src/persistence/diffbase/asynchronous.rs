//! Diff-base storages that are awaited, such as an external database.

use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;

use super::DiffBaseStorage;
use crate::body::Body;
use crate::field::FieldPath;
use crate::keys::KeyNaming;
use crate::patch::Patch;
use crate::storage::{StorageError, StorageFuture};
use crate::sync::Mutex;

/// Keeps the essence of an object outside of the object, and is awaited.
///
/// Each cycle of an object calls [`fetch`](Self::fetch) at most once, and [`store`](Self::store) at
/// most once, before the object is patched and after the progress is saved. Only this object waits for
/// them. An error is logged, and the call is repeated after a growing delay (`queueing.error_delays`).
pub trait AsyncDiffBaseStorage: Send + Sync + Debug {
    /// Reads the stored essence; `None` if the object was never handled.
    fn fetch<'a>(&'a self, body: &'a Body) -> StorageFuture<'a, Option<Value>>;

    /// Stores an essence. May change the object by the patch. Repeated after an error.
    fn store<'a>(
        &'a self,
        body: &'a Body,
        essence: &'a Value,
        patch: &'a mut Patch,
    ) -> StorageFuture<'a, ()>;

    /// As [`DiffBaseStorage::strip`]. Does nothing by default.
    fn strip(&self, _body: &Body, _essence: &mut Value) {}
}

/// An asynchronous storage in the place of a synchronous one, as in the settings. Reads and writes
/// fail outside of a [`DiffBaseSession`].
#[derive(Debug, Clone)]
pub struct AwaitedDiffBaseStorage(Arc<dyn AsyncDiffBaseStorage>);

impl AwaitedDiffBaseStorage {
    /// Wraps a storage.
    pub fn new(storage: Arc<dyn AsyncDiffBaseStorage>) -> Self {
        Self(storage)
    }
}

impl DiffBaseStorage for AwaitedDiffBaseStorage {
    fn strip(&self, body: &Body, essence: &mut Value) {
        self.0.strip(body, essence);
    }

    fn fetch(&self, _: &Body) -> Result<Option<Value>, StorageError> {
        Err(StorageError::NotLoaded)
    }

    fn store(&self, _: &Body, _: &mut Patch, _: &Value) -> Result<(), StorageError> {
        Err(StorageError::NotLoaded)
    }

    fn asynchronous(&self) -> Option<&dyn AsyncDiffBaseStorage> {
        Some(&*self.0)
    }
}

/// The use of a diff-base storage in one cycle of one object.
///
/// Opening a session fetches the essence from an asynchronous storage. Until the end of the cycle, the
/// session is a synchronous storage, which keeps the new essence; the caller stores it by
/// [`AsyncDiffBaseStorage::store`]. Sessions of synchronous storages pass everything through and have
/// nothing to store.
///
/// ```
/// use std::sync::Arc;
///
/// use kopf_core::body::Body;
/// use kopf_core::diffbase::{DiffBaseSession, DiffBaseStorage};
/// use kopf_core::patch::Patch;
/// use kopf_core::storage::StorageError;
///
/// async fn handle(
///     storage: &Arc<dyn DiffBaseStorage>,
///     body: &Body,
///     patch: &mut Patch,
/// ) -> Result<(), StorageError> {
///     let session = DiffBaseSession::open(storage, body).await?;
///     let essence = session.storage().build(body, &[])?;
///     if session.storage().fetch(body)?.as_ref() != Some(&essence) {
///         session.storage().store(body, patch, &essence)?;
///     }
///     if let (Some(asynchronous), Some(essence)) = (storage.asynchronous(), session.take_essence()) {
///         asynchronous.store(body, &essence, patch).await?;
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct DiffBaseSession(Session);

#[derive(Debug)]
enum Session {
    Sync(Arc<dyn DiffBaseStorage>),
    Async(Snapshot),
}

impl DiffBaseSession {
    /// Fetches the essence, if the storage is asynchronous.
    ///
    /// # Errors
    /// Returns the error of the storage.
    pub async fn open(
        storage: &Arc<dyn DiffBaseStorage>,
        body: &Body,
    ) -> Result<Self, StorageError> {
        match storage.asynchronous() {
            None => Ok(Self::without_essence(storage)),
            Some(asynchronous) => {
                let fetched = asynchronous.fetch(body).await?;
                let storage = Arc::clone(storage);
                Ok(Self(Session::Async(Snapshot::new(storage, fetched))))
            }
        }
    }

    /// Opens a session without fetching anything: an asynchronous storage looks as if the object was
    /// never handled.
    pub fn without_essence(storage: &Arc<dyn DiffBaseStorage>) -> Self {
        let storage = Arc::clone(storage);
        Self(match storage.asynchronous() {
            None => Session::Sync(storage),
            Some(_) => Session::Async(Snapshot::new(storage, None)),
        })
    }

    /// Returns the storage to use until the end of the cycle.
    pub fn storage(&self) -> &dyn DiffBaseStorage {
        match &self.0 {
            Session::Sync(storage) => &**storage,
            Session::Async(snapshot) => snapshot,
        }
    }

    /// Takes the essence that is to be stored. Always `None` if the storage is synchronous.
    pub fn take_essence(&self) -> Option<Value> {
        match &self.0 {
            Session::Sync(_) => None,
            Session::Async(snapshot) => snapshot.stored.lock().take(),
        }
    }
}

/// The fetched essence, and a new one that is not stored yet.
#[derive(Debug)]
struct Snapshot {
    storage: Arc<dyn DiffBaseStorage>,
    fetched: Option<Value>,
    stored: Mutex<Option<Value>>,
}

impl Snapshot {
    fn new(storage: Arc<dyn DiffBaseStorage>, fetched: Option<Value>) -> Self {
        Self {
            storage,
            fetched,
            stored: Mutex::default(),
        }
    }
}

impl DiffBaseStorage for Snapshot {
    fn build(&self, body: &Body, extra_fields: &[FieldPath]) -> Result<Value, StorageError> {
        self.storage.build(body, extra_fields)
    }

    fn is_usual(&self) -> bool {
        self.storage.is_usual()
    }

    fn strip(&self, body: &Body, essence: &mut Value) {
        self.storage.strip(body, essence);
    }

    fn naming(&self) -> Option<&KeyNaming> {
        self.storage.naming()
    }

    fn fetch(&self, _: &Body) -> Result<Option<Value>, StorageError> {
        Ok(self.fetched.clone())
    }

    fn store(&self, _: &Body, _: &mut Patch, essence: &Value) -> Result<(), StorageError> {
        *self.stored.lock() = Some(essence.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use serde_json::json;

    use super::*;
    use crate::diffbase::AnnotationsDiffBaseStorage;

    #[derive(Debug, Default)]
    struct Database(Mutex<Option<Value>>);

    impl AsyncDiffBaseStorage for Database {
        fn fetch<'a>(&'a self, _: &'a Body) -> StorageFuture<'a, Option<Value>> {
            Box::pin(async { Ok(self.0.lock().clone()) })
        }

        fn store<'a>(
            &'a self,
            _: &'a Body,
            essence: &'a Value,
            _: &'a mut Patch,
        ) -> StorageFuture<'a, ()> {
            Box::pin(async {
                *self.0.lock() = Some(essence.clone());
                Ok(())
            })
        }
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        let mut context = Context::from_waker(Waker::noop());
        match std::pin::pin!(future).poll(&mut context) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("nothing is awaited here"),
        }
    }

    #[test]
    fn essences_are_stored_when_they_are_taken() {
        let database = Arc::new(Database::default());
        let storage = AwaitedDiffBaseStorage::new(Arc::clone(&database) as _);
        let storage: Arc<dyn DiffBaseStorage> = Arc::new(storage);
        let (body, mut patch) = (Body::new(json!({"spec": {"a": 1}})), Patch::default());
        assert!(storage.fetch(&body).is_err(), "it needs a session");

        let session = now(DiffBaseSession::open(&storage, &body)).unwrap();
        assert_eq!(session.storage().fetch(&body).unwrap(), None);
        let essence = session.storage().build(&body, &[]).unwrap();
        let stored = session.storage().store(&body, &mut patch, &essence);
        stored.unwrap();
        assert_eq!(*database.0.lock(), None, "not stored yet");
        let taken = session.take_essence().unwrap();
        assert_eq!(session.take_essence(), None);
        let asynchronous = storage.asynchronous().unwrap();
        now(asynchronous.store(&body, &taken, &mut patch)).unwrap();
        assert!(patch.is_empty(), "nothing is written to the object");

        let session = now(DiffBaseSession::open(&storage, &body)).unwrap();
        assert_eq!(session.storage().fetch(&body).unwrap(), Some(essence));
        let session = DiffBaseSession::without_essence(&storage);
        assert_eq!(session.storage().fetch(&body).unwrap(), None);
    }

    #[test]
    fn synchronous_storages_have_nothing_to_take() {
        let storage: Arc<dyn DiffBaseStorage> = Arc::new(AnnotationsDiffBaseStorage::default());
        let (body, mut patch) = (Body::new(json!({"spec": {"a": 1}})), Patch::default());
        let session = now(DiffBaseSession::open(&storage, &body)).unwrap();
        let stored = session.storage().store(&body, &mut patch, &json!({}));
        stored.unwrap();
        assert!(!patch.is_empty());
        assert_eq!(session.take_essence(), None);
    }
}
