//! Progress storages that are awaited, such as an external database.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;

use super::{ProgressRecord, ProgressStorage};
use crate::body::Body;
use crate::handler::HandlerId;
use crate::patch::Patch;
use crate::storage::{StorageError, StorageFuture};
use crate::sync::Mutex;

/// Records by the ids of their handlers.
pub type ProgressRecords = BTreeMap<String, ProgressRecord>;

/// New records by the ids of their handlers; `None` removes a record, if there is one.
pub type ProgressChanges = BTreeMap<String, Option<ProgressRecord>>;

/// Keeps the [records](ProgressRecord) of handlers outside of objects, and is awaited.
///
/// Each cycle of an object calls [`load`](Self::load) at most once, and once more for each handler
/// with sub-handlers; it calls [`save`](Self::save) at most once, before the object is patched. Only
/// this object waits for them. An error is logged, and the call is repeated after a growing delay
/// (`queueing.error_delays`). What could not be saved is kept in memory: the handlers are not called
/// again, unless the operator restarts.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use kopf_core::body::Body;
/// use kopf_core::handler::HandlerId;
/// use kopf_core::patch::Patch;
/// use kopf_core::progress::{
///     AsyncProgressStorage, AwaitedProgressStorage, ProgressChanges, ProgressRecords,
/// };
/// use kopf_core::settings::Settings;
/// use kopf_core::storage::StorageFuture;
///
/// /// Records of one object; a real one has a connection to a database.
/// #[derive(Debug, Default)]
/// struct Memory(Mutex<ProgressRecords>);
///
/// impl AsyncProgressStorage for Memory {
///     fn load<'a>(
///         &'a self,
///         _ids: &'a [HandlerId],
///         _body: &'a Body,
///     ) -> StorageFuture<'a, ProgressRecords> {
///         Box::pin(async { Ok(self.0.lock().unwrap().clone()) })
///     }
///
///     fn save<'a>(
///         &'a self,
///         changes: &'a ProgressChanges,
///         _body: &'a Body,
///         _patch: &'a mut Patch,
///     ) -> StorageFuture<'a, ()> {
///         Box::pin(async move {
///             for (id, record) in changes {
///                 match record {
///                     Some(record) => self.0.lock().unwrap().insert(id.clone(), record.clone()),
///                     None => self.0.lock().unwrap().remove(id),
///                 };
///             }
///             Ok(())
///         })
///     }
/// }
///
/// let mut settings = Settings::default();
/// let storage = AwaitedProgressStorage::new(Arc::new(Memory::default()));
/// settings.persistence.progress_storage = Arc::new(storage);
/// ```
pub trait AsyncProgressStorage: Send + Sync + Debug {
    /// Reads the records of these handlers of one object. May return records of other handlers.
    fn load<'a>(
        &'a self,
        ids: &'a [HandlerId],
        body: &'a Body,
    ) -> StorageFuture<'a, ProgressRecords>;

    /// Stores and removes records of one object. May change the object by the patch. Saving the same
    /// changes again must have the same result: the call is repeated after an error.
    fn save<'a>(
        &'a self,
        changes: &'a ProgressChanges,
        body: &'a Body,
        patch: &'a mut Patch,
    ) -> StorageFuture<'a, ()>;

    /// As [`ProgressStorage::clear`]. Does nothing by default.
    ///
    /// # Errors
    /// Returns the error of the storage.
    fn clear(&self, _essence: &mut Value) -> Result<(), StorageError> {
        Ok(())
    }

    /// As [`ProgressStorage::check_id`]. Accepts all ids by default.
    ///
    /// # Errors
    /// If no record can be stored under this id.
    fn check_id(&self, _id: &str) -> Result<(), StorageError> {
        Ok(())
    }
}

/// An asynchronous storage in the place of a synchronous one, as in the settings. Reads and writes
/// fail outside of a [`ProgressSession`].
#[derive(Debug, Clone)]
pub struct AwaitedProgressStorage(Arc<dyn AsyncProgressStorage>);

impl AwaitedProgressStorage {
    /// Wraps a storage.
    pub fn new(storage: Arc<dyn AsyncProgressStorage>) -> Self {
        Self(storage)
    }
}

impl ProgressStorage for AwaitedProgressStorage {
    fn fetch(&self, _: &str, _: &Body) -> Result<Option<ProgressRecord>, StorageError> {
        Err(StorageError::NotLoaded)
    }

    fn store(
        &self,
        _: &str,
        _: &ProgressRecord,
        _: &Body,
        _: &mut Patch,
    ) -> Result<(), StorageError> {
        Err(StorageError::NotLoaded)
    }

    fn purge(&self, _: &str, _: &Body, _: &mut Patch) -> Result<(), StorageError> {
        Err(StorageError::NotLoaded)
    }

    /// Does nothing: no state is kept on the object.
    fn touch(&self, _: &Body, _: &mut Patch, _: Option<&str>) -> Result<(), StorageError> {
        Ok(())
    }

    fn clear(&self, essence: &mut Value) -> Result<(), StorageError> {
        self.0.clear(essence)
    }

    fn check_id(&self, id: &str) -> Result<(), StorageError> {
        self.0.check_id(id)
    }

    fn asynchronous(&self) -> Option<&dyn AsyncProgressStorage> {
        Some(&*self.0)
    }
}

/// The use of a progress storage in one cycle of one object.
///
/// Opening a session loads the records of an asynchronous storage. Until the end of the cycle, the
/// session is a synchronous storage, which collects the changes; the caller saves them by
/// [`AsyncProgressStorage::save`]. Sessions of synchronous storages pass everything through and have
/// no changes.
///
/// ```
/// use std::sync::Arc;
///
/// use kopf_core::body::Body;
/// use kopf_core::handler::HandlerId;
/// use kopf_core::patch::Patch;
/// use kopf_core::progress::{ProgressSession, ProgressStorage};
/// use kopf_core::storage::StorageError;
///
/// async fn finish(
///     storage: &Arc<dyn ProgressStorage>,
///     id: &HandlerId,
///     body: &Body,
///     patch: &mut Patch,
/// ) -> Result<(), StorageError> {
///     let session = ProgressSession::open(storage, &[id.clone()], body).await?;
///     let mut record = session.storage().fetch(id, body)?.unwrap_or_default();
///     record.success = true;
///     session.storage().store(id, &record, body, patch)?;
///     if let Some(asynchronous) = storage.asynchronous() {
///         asynchronous.save(&session.take_changes(), body, patch).await?;
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct ProgressSession(Session);

#[derive(Debug)]
enum Session {
    Sync(Arc<dyn ProgressStorage>),
    Async(Snapshot),
}

impl ProgressSession {
    /// Loads the records of these handlers, if the storage is asynchronous.
    ///
    /// # Errors
    /// Returns the error of the storage.
    pub async fn open(
        storage: &Arc<dyn ProgressStorage>,
        ids: &[HandlerId],
        body: &Body,
    ) -> Result<Self, StorageError> {
        let session = match storage.asynchronous() {
            None => Session::Sync(Arc::clone(storage)),
            Some(asynchronous) => Session::Async(Snapshot {
                records: asynchronous.load(ids, body).await?,
                storage: Arc::clone(storage),
                changes: Mutex::default(),
            }),
        };
        Ok(Self(session))
    }

    /// Returns the storage to use until the end of the cycle.
    pub fn storage(&self) -> &dyn ProgressStorage {
        match &self.0 {
            Session::Sync(storage) => &**storage,
            Session::Async(snapshot) => snapshot,
        }
    }

    /// Takes the changes since the session was opened, or since the last call. Always empty if the
    /// storage is synchronous.
    pub fn take_changes(&self) -> ProgressChanges {
        match &self.0 {
            Session::Sync(_) => ProgressChanges::default(),
            Session::Async(snapshot) => std::mem::take(&mut *snapshot.changes.lock()),
        }
    }
}

/// Loaded records, and changes that are not saved yet.
#[derive(Debug)]
struct Snapshot {
    storage: Arc<dyn ProgressStorage>,
    records: ProgressRecords,
    changes: Mutex<ProgressChanges>,
}

impl ProgressStorage for Snapshot {
    fn fetch(&self, key: &str, _: &Body) -> Result<Option<ProgressRecord>, StorageError> {
        Ok(self.records.get(key).cloned())
    }

    fn store(
        &self,
        key: &str,
        record: &ProgressRecord,
        _: &Body,
        _: &mut Patch,
    ) -> Result<(), StorageError> {
        self.changes
            .lock()
            .insert(key.to_owned(), Some(record.clone()));
        Ok(())
    }

    fn purge(&self, key: &str, _: &Body, _: &mut Patch) -> Result<(), StorageError> {
        self.changes.lock().insert(key.to_owned(), None);
        Ok(())
    }

    fn touch(
        &self,
        body: &Body,
        patch: &mut Patch,
        value: Option<&str>,
    ) -> Result<(), StorageError> {
        self.storage.touch(body, patch, value)
    }

    fn clear(&self, essence: &mut Value) -> Result<(), StorageError> {
        self.storage.clear(essence)
    }

    fn check_id(&self, id: &str) -> Result<(), StorageError> {
        self.storage.check_id(id)
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use serde_json::json;

    use super::*;
    use crate::progress::{SmartProgressStorage, state::State};

    #[derive(Debug, Default)]
    struct Database {
        records: Mutex<ProgressRecords>,
        calls: Mutex<Vec<&'static str>>,
    }

    impl AsyncProgressStorage for Database {
        fn load<'a>(
            &'a self,
            ids: &'a [HandlerId],
            _: &'a Body,
        ) -> StorageFuture<'a, ProgressRecords> {
            self.calls.lock().push("load");
            let records = self.records.lock().clone();
            let asked = |id: &String| ids.iter().any(|other| **other == **id);
            Box::pin(async move { Ok(records.into_iter().filter(|(id, _)| asked(id)).collect()) })
        }

        fn save<'a>(
            &'a self,
            changes: &'a ProgressChanges,
            _: &'a Body,
            patch: &'a mut Patch,
        ) -> StorageFuture<'a, ()> {
            self.calls.lock().push("save");
            patch.status_mut().insert("saved".into(), json!(true));
            for (id, record) in changes {
                match record {
                    Some(record) => self.records.lock().insert(id.clone(), record.clone()),
                    None => self.records.lock().remove(id),
                };
            }
            Box::pin(async { Ok(()) })
        }
    }

    fn now<T>(future: impl Future<Output = T>) -> T {
        let mut context = Context::from_waker(Waker::noop());
        match std::pin::pin!(future).poll(&mut context) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("nothing is awaited here"),
        }
    }

    fn database() -> (Arc<Database>, Arc<dyn ProgressStorage>) {
        let database = Arc::new(Database::default());
        let storage = AwaitedProgressStorage::new(Arc::clone(&database) as _);
        (database, Arc::new(storage))
    }

    fn save(storage: &Arc<dyn ProgressStorage>, session: &ProgressSession, patch: &mut Patch) {
        let (changes, body) = (session.take_changes(), Body::new(json!({})));
        let asynchronous = storage.asynchronous().unwrap();
        now(asynchronous.save(&changes, &body, patch)).unwrap();
    }

    #[test]
    fn records_are_loaded_and_saved_at_once() {
        let (database, storage) = database();
        let (body, mut patch) = (Body::new(json!({})), Patch::default());
        let ids: Vec<HandlerId> = vec!["a".into(), "b".into()];
        let record = ProgressRecord {
            retries: 3,
            ..ProgressRecord::default()
        };

        let session = now(ProgressSession::open(&storage, &ids, &body)).unwrap();
        for id in &ids {
            let stored = session.storage().store(id, &record, &body, &mut patch);
            stored.unwrap();
        }
        assert!(database.records.lock().is_empty(), "not saved");
        save(&storage, &session, &mut patch);
        assert_eq!(patch.merge["status"], json!({"saved": true}));
        assert_eq!(*database.calls.lock(), ["load", "save"]);

        let session = now(ProgressSession::open(&storage, &ids[..1], &body)).unwrap();
        let state = State::load(session.storage(), &body, ids.iter()).unwrap();
        assert_eq!(state.record("a"), Some(&record));
        assert_eq!(state.record("b"), None, "not requested");
        session.storage().purge("a", &body, &mut patch).unwrap();
        save(&storage, &session, &mut patch);
        let left: Vec<_> = database.records.lock().keys().cloned().collect();
        assert_eq!(left, ["b"]);
    }

    #[test]
    fn changes_are_taken_once() {
        let (_, storage) = database();
        let (body, mut patch) = (Body::new(json!({})), Patch::default());
        let session = now(ProgressSession::open(&storage, &[], &body)).unwrap();
        assert!(session.take_changes().is_empty());
        session.storage().purge("a", &body, &mut patch).unwrap();
        assert_eq!(session.take_changes().len(), 1);
        assert!(session.take_changes().is_empty());
    }

    #[test]
    fn synchronous_storages_have_no_changes() {
        let storage: Arc<dyn ProgressStorage> = Arc::new(SmartProgressStorage::default());
        let (body, mut patch) = (Body::new(json!({})), Patch::default());
        let session = now(ProgressSession::open(&storage, &[], &body)).unwrap();
        let record = ProgressRecord::default();
        let stored = session.storage().store("a", &record, &body, &mut patch);
        stored.unwrap();
        assert!(!patch.is_empty());
        assert!(session.take_changes().is_empty());
    }

    #[test]
    fn asynchronous_storages_need_a_session() {
        let (_, storage) = database();
        let error = storage.fetch("a", &Body::new(json!({}))).unwrap_err();
        assert!(error.to_string().contains("was not loaded"), "{error}");
    }
}
