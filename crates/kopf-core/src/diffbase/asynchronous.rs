//! Diff-base storages that are awaited, such as an external database.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::DiffBaseStorage;
use crate::body::Body;
use crate::field::FieldPath;
use crate::patch::Patch;
use crate::storage::{StorageError, StorageFuture};

/// Keeps the essence of an object outside of the object, and is awaited.
///
/// Each cycle of an object makes at most one call of [`fetch`](Self::fetch) and one of
/// [`store`](Self::store). Only this object waits for them.
pub trait AsyncDiffBaseStorage: Send + Sync + Debug {
    /// Reads the stored essence; `None` if the object was never handled.
    fn fetch<'a>(&'a self, body: &'a Body) -> StorageFuture<'a, Option<Value>>;

    /// Stores an essence. May also change the object, by the patch.
    fn store<'a>(
        &'a self,
        body: &'a Body,
        essence: &'a Value,
        patch: &'a mut Patch,
    ) -> StorageFuture<'a, ()>;

    /// As [`DiffBaseStorage::strip`]. Does nothing by default.
    fn strip(&self, _body: &Body, _essence: &mut Value) {}
}

/// An asynchronous storage in the place of a synchronous one, as in the settings. It works only
/// through a [`DiffBaseSession`].
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

/// The use of a storage in one cycle of one object: the essence is fetched when it is opened, and
/// stored when it is committed. In between, the storage is synchronous. Sessions of synchronous
/// storages neither fetch nor store anything themselves.
///
/// ```
/// use kopf_core::body::Body;
/// use kopf_core::diffbase::{AnnotationsDiffBaseStorage, DiffBaseSession};
/// use kopf_core::patch::Patch;
/// use kopf_core::storage::StorageError;
///
/// async fn handle(body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
///     let storage = AnnotationsDiffBaseStorage::default();
///     let session = DiffBaseSession::open(&storage, body).await?;
///     let essence = session.storage().build(body, &[])?;
///     if session.storage().fetch(body)?.as_ref() != Some(&essence) {
///         session.storage().store(body, patch, &essence)?;
///     }
///     session.commit(body, patch).await
/// }
/// ```
#[derive(Debug)]
pub struct DiffBaseSession<'s>(Session<'s>);

#[derive(Debug)]
enum Session<'s> {
    Sync(&'s dyn DiffBaseStorage),
    Async(Snapshot<'s>),
}

impl<'s> DiffBaseSession<'s> {
    /// Fetches the essence, if the storage is asynchronous.
    ///
    /// # Errors
    /// Of the storage.
    pub async fn open(storage: &'s dyn DiffBaseStorage, body: &Body) -> Result<Self, StorageError> {
        Ok(Self(match storage.asynchronous() {
            None => Session::Sync(storage),
            Some(asynchronous) => Session::Async(Snapshot {
                fetched: asynchronous.fetch(body).await?,
                storage,
                asynchronous,
                stored: Mutex::default(),
            }),
        }))
    }

    /// Returns the storage to be used until the session is committed.
    pub fn storage(&self) -> &dyn DiffBaseStorage {
        match &self.0 {
            Session::Sync(storage) => *storage,
            Session::Async(snapshot) => snapshot,
        }
    }

    /// Stores the essence, if the storage is asynchronous and there is a new one.
    ///
    /// # Errors
    /// Of the storage. The essence is not stored then.
    pub async fn commit(self, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        let Session::Async(snapshot) = self.0 else {
            return Ok(());
        };
        let stored = snapshot.stored.into_inner();
        match stored.unwrap_or_else(PoisonError::into_inner) {
            Some(essence) => snapshot.asynchronous.store(body, &essence, patch).await,
            None => Ok(()),
        }
    }
}

/// The fetched essence, and a new one that is not stored yet.
#[derive(Debug)]
struct Snapshot<'s> {
    storage: &'s dyn DiffBaseStorage,
    asynchronous: &'s dyn AsyncDiffBaseStorage,
    fetched: Option<Value>,
    stored: Mutex<Option<Value>>,
}

impl DiffBaseStorage for Snapshot<'_> {
    fn build(&self, body: &Body, extra_fields: &[FieldPath]) -> Result<Value, StorageError> {
        self.storage.build(body, extra_fields)
    }

    fn is_usual(&self) -> bool {
        self.storage.is_usual()
    }

    fn strip(&self, body: &Body, essence: &mut Value) {
        self.storage.strip(body, essence);
    }

    fn fetch(&self, _: &Body) -> Result<Option<Value>, StorageError> {
        Ok(self.fetched.clone())
    }

    fn store(&self, _: &Body, _: &mut Patch, essence: &Value) -> Result<(), StorageError> {
        // No code that can panic runs under the lock.
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        *stored = Some(essence.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use serde_json::json;

    use super::*;

    #[derive(Debug, Default)]
    struct Database(Mutex<Option<Value>>);

    impl AsyncDiffBaseStorage for Database {
        fn fetch<'a>(&'a self, _: &'a Body) -> StorageFuture<'a, Option<Value>> {
            Box::pin(async { Ok(self.0.lock().unwrap().clone()) })
        }

        fn store<'a>(
            &'a self,
            _: &'a Body,
            essence: &'a Value,
            _: &'a mut Patch,
        ) -> StorageFuture<'a, ()> {
            Box::pin(async {
                *self.0.lock().unwrap() = Some(essence.clone());
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
    fn essences_are_stored_when_the_session_is_committed() {
        let database = Arc::new(Database::default());
        let storage = AwaitedDiffBaseStorage::new(Arc::clone(&database) as _);
        let (body, mut patch) = (Body::new(json!({"spec": {"a": 1}})), Patch::default());
        assert!(storage.fetch(&body).is_err(), "it needs a session");

        let session = now(DiffBaseSession::open(&storage, &body)).unwrap();
        assert_eq!(session.storage().fetch(&body).unwrap(), None);
        let essence = session.storage().build(&body, &[]).unwrap();
        session
            .storage()
            .store(&body, &mut patch, &essence)
            .unwrap();
        assert_eq!(*database.0.lock().unwrap(), None, "not committed");
        now(session.commit(&body, &mut patch)).unwrap();
        assert!(patch.is_empty(), "nothing is written to the object");

        let session = now(DiffBaseSession::open(&storage, &body)).unwrap();
        assert_eq!(session.storage().fetch(&body).unwrap(), Some(essence));
        now(session.commit(&body, &mut patch)).unwrap();
    }
}
