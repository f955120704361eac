//! Progress and diff-bases in a database that is awaited: objects are handled as with annotations,
//! and errors of the database delay an object without losing anything.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kopf_core::body::Body;
use kopf_core::diffbase::{AsyncDiffBaseStorage, AwaitedDiffBaseStorage, StorageError};
use kopf_core::handler::HandlerId;
use kopf_core::lifecycle::AllAtOnce;
use kopf_core::patch::Patch;
use kopf_core::progress::{
    AsyncProgressStorage, AwaitedProgressStorage, ProgressChanges, ProgressRecords,
};
use kopf_core::storage::StorageFuture;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::time::sleep;

use crate::front::{Declaration, done, gives, on, register, temporary};
use crate::stage::{Setup, Stage, everywhere, finalizers, own_annotations, sandboxed};

/// A database with a table of progress records and a table of essences, by the uids of objects.
#[derive(Debug, Default)]
struct Database {
    records: Mutex<BTreeMap<String, ProgressRecords>>,
    essences: Mutex<BTreeMap<String, Value>>,
    calls: std::sync::Mutex<Vec<&'static str>>,
    /// The time of each call, in milliseconds.
    latency: AtomicUsize,
    /// The numbers of the next calls that fail.
    failing_loads: AtomicUsize,
    failing_saves: AtomicUsize,
    failing_fetches: AtomicUsize,
    failing_stores: AtomicUsize,
}

impl Database {
    async fn call(&self, name: &'static str, failing: &AtomicUsize) -> Result<(), StorageError> {
        self.calls.lock().unwrap().push(name);
        let latency = self.latency.load(Ordering::Relaxed).max(1);
        sleep(Duration::from_millis(latency as u64)).await;
        let left = failing.load(Ordering::Relaxed);
        failing.store(left.saturating_sub(1), Ordering::Relaxed);
        if left > 0 {
            return Err(StorageError::custom(format!("no connection to {name}")));
        }
        Ok(())
    }

    fn count(&self, name: &str) -> usize {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|call| **call == name).count()
    }

    /// The records of all objects.
    async fn records(&self) -> ProgressRecords {
        let records = self.records.lock().await;
        records
            .values()
            .flatten()
            .map(|(id, r)| (id.clone(), r.clone()))
            .collect()
    }

    /// The essences of all objects.
    async fn essences(&self) -> Vec<Value> {
        self.essences.lock().await.values().cloned().collect()
    }
}

fn uid(body: &Body) -> String {
    body.uid().unwrap_or_default().to_owned()
}

impl AsyncProgressStorage for Database {
    fn load<'a>(
        &'a self,
        ids: &'a [HandlerId],
        body: &'a Body,
    ) -> StorageFuture<'a, ProgressRecords> {
        Box::pin(async move {
            self.call("load", &self.failing_loads).await?;
            let mut records = self.records.lock().await.get(&uid(body)).cloned();
            let records = records.get_or_insert_default();
            records.retain(|id, _| ids.iter().any(|other| **other == **id));
            Ok(std::mem::take(records))
        })
    }

    fn save<'a>(
        &'a self,
        changes: &'a ProgressChanges,
        body: &'a Body,
        _: &'a mut Patch,
    ) -> StorageFuture<'a, ()> {
        Box::pin(async move {
            self.call("save", &self.failing_saves).await?;
            let mut tables = self.records.lock().await;
            let table = tables.entry(uid(body)).or_default();
            for (id, record) in changes {
                match record {
                    Some(record) => table.insert(id.clone(), record.clone()),
                    None => table.remove(id),
                };
            }
            Ok(())
        })
    }
}

impl AsyncDiffBaseStorage for Database {
    fn fetch<'a>(&'a self, body: &'a Body) -> StorageFuture<'a, Option<Value>> {
        Box::pin(async move {
            self.call("fetch", &self.failing_fetches).await?;
            Ok(self.essences.lock().await.get(&uid(body)).cloned())
        })
    }

    fn store<'a>(
        &'a self,
        body: &'a Body,
        essence: &'a Value,
        patch: &'a mut Patch,
    ) -> StorageFuture<'a, ()> {
        Box::pin(async move {
            self.call("store", &self.failing_stores).await?;
            let mut essences = self.essences.lock().await;
            essences.insert(uid(body), essence.clone());
            patch
                .status_mut()
                .insert("stored".into(), json!(essences.len()));
            Ok(())
        })
    }
}

/// An operator that keeps everything in the database.
fn operator<'a>(
    stage: &'a Stage,
    handlers: impl IntoIterator<Item = Declaration>,
    database: &Arc<Database>,
) -> Setup<'a> {
    let progress = AwaitedProgressStorage::new(Arc::clone(database) as _);
    let diffbase = AwaitedDiffBaseStorage::new(Arc::clone(database) as _);
    stage.operator(handlers).settings(|settings| {
        settings.persistence.progress_storage = Arc::new(progress);
        settings.persistence.diffbase_storage = Arc::new(diffbase);
    })
}

/// Fails twice, and succeeds with a result.
fn retried(handler: Declaration) -> Declaration {
    handler.does(|call| async move {
        if call.retry < 2 {
            return temporary("not yet", 0.5);
        }
        gives(json!({"retry": call.retry}))
    })
}

fn retries(stage: &Stage, id: &str) -> Vec<u32> {
    let calls = stage.journal.of(id).into_iter();
    calls.map(|entry| entry.retry).collect()
}

async fn until_stored(stage: &Stage, database: &Database, field: i32) {
    let essence = json!({"spec": {"field": field}});
    let since = tokio::time::Instant::now();
    while database.essences().await != [essence.clone()] {
        assert!(
            since.elapsed() < Duration::from_secs(60),
            "{essence} is not stored"
        );
        stage.sleep(0.05).await;
    }
    stage.settled().await;
}

#[test]
fn creation_and_update_are_detected_by_the_stored_essence() {
    everywhere(async |stage| {
        let database = Arc::new(Database::default());
        let handlers = [on::create("made"), on::update("updated")];
        let _operator = operator(stage, handlers, &database).start().await;
        stage.create("obj", json!({"field": 1})).await;
        until_stored(stage, &database, 1).await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        until_stored(stage, &database, 2).await;
        assert_eq!(stage.journal.ids(), ["made", "updated"]);
        let diff = json!([["change", ["spec", "field"], 1, 2]]);
        assert_eq!(stage.journal.only("updated").diff, diff);
        let object = stage.get("obj").await;
        assert!(own_annotations(&object).is_empty(), "{object:#}");
        assert_eq!(
            object["status"]["stored"], 1,
            "the storage adds to the patch"
        );
        assert!(database.records().await.is_empty());
    });
}

#[test]
fn retries_are_counted_across_restarts() {
    everywhere(async |stage| {
        let database = Arc::new(Database::default());
        let handlers = [retried(on::create("made"))];
        let operator = operator(stage, handlers, &database).start().await;
        stage.create("obj", json!({"field": 1})).await;
        stage
            .until_so("the first attempt", || database.count("save") == 1)
            .await;
        stage.settled().await;
        assert_eq!(database.records().await["made"].retries, 1);
        operator.restart().await;
        until_stored(stage, &database, 1).await;
        assert_eq!(retries(stage, "made"), [0, 1, 2]);
        let object = stage.get("obj").await;
        assert_eq!(object["status"]["made"], json!({"retry": 2}));
        assert!(
            database.records().await.is_empty(),
            "the records are removed"
        );
    });
}

#[test]
fn sub_handlers_are_saved_together_with_their_parents() {
    everywhere(async |stage| {
        let database = Arc::new(Database::default());
        let parent = on::create("made").does(|call| async move {
            register(&call, &on::sub("a"));
            register(&call, &retried(on::sub("b")));
            done()
        });
        let setup = operator(stage, [parent], &database).lifecycle(AllAtOnce);
        let operator = setup.start().await;
        stage.create("obj", json!({"field": 1})).await;
        stage
            .until_so("the first attempt", || database.count("save") == 1)
            .await;
        stage.settled().await;
        let records = database.records().await;
        let ids: Vec<_> = records.keys().map(String::as_str).collect();
        assert_eq!(ids, ["made", "made/a", "made/b"]);
        assert!(records["made/a"].success);
        operator.restart().await;
        until_stored(stage, &database, 1).await;
        assert_eq!(retries(stage, "made/a"), [0]);
        assert_eq!(retries(stage, "made/b"), [0, 1, 2]);
        assert_eq!(database.count("save"), 3, "one per cycle");
        assert!(database.records().await.is_empty());
    });
}

#[test]
fn deletion_waits_for_its_handlers() {
    everywhere(async |stage| {
        let database = Arc::new(Database::default());
        let handlers = [on::create("made"), retried(on::delete("unmade"))];
        let _operator = operator(stage, handlers, &database).start().await;
        stage.create("obj", json!({"field": 1})).await;
        until_stored(stage, &database, 1).await;
        assert_eq!(finalizers(&stage.get("obj").await).len(), 1);
        stage.delete_wholly("obj").await;
        assert_eq!(retries(stage, "unmade"), [0, 1, 2]);
        assert!(database.records().await.is_empty());
    });
}

#[test]
fn handled_objects_are_resumed_after_a_restart() {
    everywhere(async |stage| {
        let database = Arc::new(Database::default());
        let handlers = [on::create("made"), on::resume("resumed")];
        let operator = operator(stage, handlers, &database).start().await;
        stage.create("obj", json!({"field": 1})).await;
        until_stored(stage, &database, 1).await;
        operator.restart().await;
        stage
            .until_so("the resuming", || stage.journal.count("resumed") == 1)
            .await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["made", "resumed"]);
    });
}

#[test]
fn changes_are_not_missed_while_handlers_are_retried() {
    sandboxed(async |stage| {
        let database = Arc::new(Database::default());
        let slow = on::create("slow").does(|call| async move {
            if call.retry == 0 {
                return temporary("not yet", 10.0);
            }
            done()
        });
        let handlers = [on::create("quick"), slow, on::update("updated")];
        let setup = operator(stage, handlers, &database).lifecycle(AllAtOnce);
        let _operator = setup.start().await;
        stage.create("obj", json!({"field": 1})).await;
        stage.pass(5.0).await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.pass(60.0).await;
        assert_eq!(stage.journal.count("quick"), 1);
        let diff = json!([["change", ["spec", "field"], 1, 2]]);
        assert_eq!(stage.journal.only("updated").diff, diff);
        let object = stage.get("obj").await;
        assert!(own_annotations(&object).is_empty(), "{object:#}");
        until_stored(stage, &database, 2).await;
    });
}

#[test]
fn failed_loads_are_repeated_before_handlers_are_called() {
    everywhere(async |stage| {
        let database = Arc::new(Database::default());
        database.failing_fetches.store(2, Ordering::Relaxed);
        database.failing_loads.store(2, Ordering::Relaxed);
        let operator = operator(stage, [on::create("made")], &database);
        let _operator = operator.start().await;
        stage.create("obj", json!({"field": 1})).await;
        until_stored(stage, &database, 1).await;
        assert_eq!(retries(stage, "made"), [0]);
        for message in [
            "cannot load the diff-base (settings.persistence.diffbase_storage): \
             the custom storage failed: no connection to fetch",
            "cannot load the progress (settings.persistence.progress_storage): \
             the custom storage failed: no connection to load",
        ] {
            assert!(stage.log.has("obj", message), "{message}");
        }
    });
}

#[test]
fn failed_saves_are_repeated_without_calling_handlers_again() {
    everywhere(async |stage| {
        let database = Arc::new(Database::default());
        database.failing_saves.store(2, Ordering::Relaxed);
        database.failing_stores.store(1, Ordering::Relaxed);
        let made = on::create("made").does(|_| async { gives(json!({"done": true})) });
        let operator = operator(stage, [made, on::create("other")], &database);
        let _operator = operator.start().await;
        stage.create("obj", json!({"field": 1})).await;
        until_stored(stage, &database, 1).await;
        assert_eq!(stage.journal.ids(), ["made", "other"]);
        let object = stage.get("obj").await;
        assert_eq!(object["status"]["made"], json!({"done": true}));
        assert!(database.records().await.is_empty());
        for message in [
            "cannot save the progress (settings.persistence.progress_storage): \
             the custom storage failed: no connection to save",
            "cannot save the diff-base (settings.persistence.diffbase_storage): \
             the custom storage failed: no connection to store",
        ] {
            assert!(stage.log.has("obj", message), "{message}");
        }
    });
}

#[test]
fn objects_are_deleted_once_the_database_is_back() {
    everywhere(async |stage| {
        let database = Arc::new(Database::default());
        let handlers = [on::create("made"), on::delete("unmade")];
        let _operator = operator(stage, handlers, &database).start().await;
        stage.create("obj", json!({"field": 1})).await;
        until_stored(stage, &database, 1).await;
        database.failing_loads.store(2, Ordering::Relaxed);
        database.failing_saves.store(2, Ordering::Relaxed);
        stage.delete_wholly("obj").await;
        assert_eq!(stage.journal.ids(), ["made", "unmade"]);
    });
}

#[test]
fn nothing_is_loaded_for_deleted_objects() {
    everywhere(async |stage| {
        let database = Arc::new(Database::default());
        let operator = operator(stage, [on::create("made")], &database);
        let operator = operator.start().await;
        stage.create("obj", json!({"field": 1})).await;
        until_stored(stage, &database, 1).await;
        let fetched = database.count("fetch");
        stage.delete("obj").await;
        stage
            .until_so("the object to be forgotten", || {
                operator.inspect().snapshot().objects == 0
            })
            .await;
        assert_eq!(database.count("fetch"), fetched);
    });
}

#[test]
fn slow_database_does_not_hold_up_other_objects() {
    sandboxed(async |stage| {
        let database = Arc::new(Database::default());
        database.latency.store(30_000, Ordering::Relaxed);
        let _operator = operator(stage, [on::create("made")], &database)
            .start()
            .await;
        for number in 0..200 {
            let name = format!("obj-{number}");
            stage.create(&name, json!({"field": number})).await;
        }
        // Each object waits for four calls, longer than that if it also waited for a permit.
        stage.sleep(150.0).await;
        assert_eq!(stage.journal.count("made"), 200);
        assert_eq!(database.essences().await.len(), 200);
    });
}
