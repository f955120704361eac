//! Progress storages that are awaited, such as an external database.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use super::{ProgressRecord, ProgressStorage};
use crate::body::Body;
use crate::handler::HandlerId;
use crate::patch::Patch;
use crate::storage::{StorageError, StorageFuture};

/// Records by the ids of their handlers.
pub type ProgressRecords = BTreeMap<String, ProgressRecord>;

/// New records by the ids of their handlers; `None` removes a record, if there is one.
pub type ProgressChanges = BTreeMap<String, Option<ProgressRecord>>;

/// Keeps the [records](ProgressRecord) of handlers outside of objects, and is awaited.
///
/// Each cycle of an object makes at most one call of [`load`](Self::load) and one of
/// [`save`](Self::save). Only this object waits for them.
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
    /// Reads the records of these handlers of one object. Others may be returned as well.
    fn load<'a>(
        &'a self,
        ids: &'a [HandlerId],
        body: &'a Body,
    ) -> StorageFuture<'a, ProgressRecords>;

    /// Stores and removes records of one object. May also change the object, by the patch.
    fn save<'a>(
        &'a self,
        changes: &'a ProgressChanges,
        body: &'a Body,
        patch: &'a mut Patch,
    ) -> StorageFuture<'a, ()>;

    /// As [`ProgressStorage::clear`]. Does nothing by default.
    ///
    /// # Errors
    /// Of the storage.
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

/// An asynchronous storage in the place of a synchronous one, as in the settings. It works only
/// through a [`ProgressSession`].
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

    /// There is nothing on the object to be changed.
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

/// The use of a storage in one cycle of one object: the records are loaded when it is opened, and
/// changes are saved when it is committed. In between, the storage is synchronous. Sessions of
/// synchronous storages neither load nor save anything themselves.
#[derive(Debug)]
pub struct ProgressSession<'s>(Session<'s>);

#[derive(Debug)]
enum Session<'s> {
    Sync(&'s dyn ProgressStorage),
    Async(Snapshot<'s>),
}

impl<'s> ProgressSession<'s> {
    /// Loads the records of these handlers, if the storage is asynchronous.
    ///
    /// # Errors
    /// Of the storage.
    pub async fn open(
        storage: &'s dyn ProgressStorage,
        ids: &[HandlerId],
        body: &Body,
    ) -> Result<Self, StorageError> {
        Ok(Self(match storage.asynchronous() {
            None => Session::Sync(storage),
            Some(storage) => Session::Async(Snapshot {
                storage,
                records: storage.load(ids, body).await?,
                changes: Mutex::default(),
            }),
        }))
    }

    /// Returns the storage to be used until the session is committed.
    pub fn storage(&self) -> &dyn ProgressStorage {
        match &self.0 {
            Session::Sync(storage) => *storage,
            Session::Async(snapshot) => snapshot,
        }
    }

    /// Saves the changes, if the storage is asynchronous and there are any.
    ///
    /// # Errors
    /// Of the storage. The changes are lost then, unless they are stored in another session.
    pub async fn commit(self, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        let Session::Async(snapshot) = self.0 else {
            return Ok(());
        };
        let changes = std::mem::take(&mut *snapshot.changes());
        if changes.is_empty() {
            return Ok(());
        }
        snapshot.storage.save(&changes, body, patch).await
    }
}

/// Loaded records, and changes that are not saved yet.
#[derive(Debug)]
struct Snapshot<'s> {
    storage: &'s dyn AsyncProgressStorage,
    records: ProgressRecords,
    changes: Mutex<ProgressChanges>,
}

impl Snapshot<'_> {
    fn changes(&self) -> MutexGuard<'_, ProgressChanges> {
        // No code that can panic runs under the lock.
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProgressStorage for Snapshot<'_> {
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
        self.changes().insert(key.to_owned(), Some(record.clone()));
        Ok(())
    }

    fn purge(&self, key: &str, _: &Body, _: &mut Patch) -> Result<(), StorageError> {
        self.changes().insert(key.to_owned(), None);
        Ok(())
    }

    fn touch(&self, _: &Body, _: &mut Patch, _: Option<&str>) -> Result<(), StorageError> {
        Ok(())
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
            self.calls.lock().unwrap().push("load");
            let records = self.records.lock().unwrap().clone();
            let asked = |id: &String| ids.iter().any(|other| **other == **id);
            Box::pin(async move { Ok(records.into_iter().filter(|(id, _)| asked(id)).collect()) })
        }

        fn save<'a>(
            &'a self,
            changes: &'a ProgressChanges,
            _: &'a Body,
            patch: &'a mut Patch,
        ) -> StorageFuture<'a, ()> {
            self.calls.lock().unwrap().push("save");
            patch.status_mut().insert("saved".into(), json!(true));
            for (id, record) in changes {
                match record {
                    Some(record) => self
                        .records
                        .lock()
                        .unwrap()
                        .insert(id.clone(), record.clone()),
                    None => self.records.lock().unwrap().remove(id),
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

    #[test]
    fn records_are_loaded_and_saved_at_once() {
        let database = Arc::new(Database::default());
        let storage = AwaitedProgressStorage::new(Arc::clone(&database) as _);
        let (body, mut patch) = (Body::new(json!({})), Patch::default());
        let ids: Vec<HandlerId> = vec!["a".into(), "b".into()];
        let record = ProgressRecord {
            retries: 3,
            ..ProgressRecord::default()
        };

        let session = now(ProgressSession::open(&storage, &ids, &body)).unwrap();
        for id in &ids {
            session
                .storage()
                .store(id, &record, &body, &mut patch)
                .unwrap();
        }
        assert!(database.records.lock().unwrap().is_empty(), "not committed");
        now(session.commit(&body, &mut patch)).unwrap();
        assert_eq!(patch.merge["status"], json!({"saved": true}));
        assert_eq!(*database.calls.lock().unwrap(), ["load", "save"]);

        let session = now(ProgressSession::open(&storage, &ids[..1], &body)).unwrap();
        let state = State::load(session.storage(), &body, ids.iter()).unwrap();
        assert_eq!(state.record("a"), Some(&record));
        assert_eq!(state.record("b"), None, "it was not asked for");
        session.storage().purge("a", &body, &mut patch).unwrap();
        now(session.commit(&body, &mut patch)).unwrap();
        let left: Vec<_> = database.records.lock().unwrap().keys().cloned().collect();
        assert_eq!(left, ["b"]);
    }

    #[test]
    fn sessions_without_changes_save_nothing() {
        let database = Arc::new(Database::default());
        let storage = AwaitedProgressStorage::new(Arc::clone(&database) as _);
        let (body, mut patch) = (Body::new(json!({})), Patch::default());
        let session = now(ProgressSession::open(&storage, &[], &body)).unwrap();
        now(session.commit(&body, &mut patch)).unwrap();
        assert_eq!(*database.calls.lock().unwrap(), ["load"]);
    }

    #[test]
    fn synchronous_storages_need_no_session() {
        let storage = SmartProgressStorage::default();
        let (body, mut patch) = (Body::new(json!({})), Patch::default());
        let session = now(ProgressSession::open(&storage, &[], &body)).unwrap();
        let record = ProgressRecord::default();
        session
            .storage()
            .store("a", &record, &body, &mut patch)
            .unwrap();
        assert!(!patch.is_empty());
        now(session.commit(&body, &mut patch)).unwrap();
    }

    #[test]
    fn asynchronous_storages_need_a_session() {
        let storage = AwaitedProgressStorage::new(Arc::new(Database::default()));
        let body = Body::new(json!({}));
        let error = storage.fetch("a", &body).unwrap_err();
        assert!(error.to_string().contains("was not loaded"), "{error}");
    }
}
