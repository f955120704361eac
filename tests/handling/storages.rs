//! Storages of state: other prefixes, the status, several storages, custom storages.

use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::diffbase::{
    AnnotationsDiffBaseStorage, DiffBaseStorage, MultiDiffBaseStorage, StatusDiffBaseStorage,
    StorageError,
};
use kopf_core::field::FieldPath;
use kopf_core::patch::Patch;
use kopf_core::progress::{
    AnnotationsProgressStorage, MultiProgressStorage, ProgressStorage, StatusProgressStorage,
};
use kopf_tests::objects;
use serde_json::{Value, json};

use crate::front::{Declaration, done, on, temporary};
use crate::stage::{annotation, everywhere, finalizers, own_annotations, progress, sandboxed};

fn failing_once() -> Declaration {
    on::create("make").does(|call| async move {
        if call.retry == 0 {
            return temporary("not yet", 1.0);
        }
        done()
    })
}

#[test]
fn other_prefixes_are_marked_as_managed() {
    sandboxed(async |stage| {
        let prefix = "my-op.example.com";
        let setup = stage.operator([failing_once()]);
        let _operator = setup
            .settings(|settings| {
                let persistence = &mut settings.persistence;
                let progress = AnnotationsProgressStorage::new(prefix).unwrap();
                persistence.progress_storage = Arc::new(progress);
                let diffbase = AnnotationsDiffBaseStorage::new(prefix).unwrap();
                persistence.diffbase_storage = Arc::new(diffbase);
            })
            .start()
            .await;
        stage.create_settled("obj", json!({"field": 1})).await;
        let object = stage.get("obj").await;
        assert_eq!(annotation(&object, "my-op.example.com/kopf-managed"), "yes");
        assert_ne!(annotation(&object, "my-op.example.com/make"), "");
        stage.pass(2.0).await;
        let object = stage.get("obj").await;
        let annotations = object["metadata"]["annotations"].as_object().unwrap();
        let keys: Vec<_> = annotations.keys().collect();
        assert_eq!(
            keys,
            [
                "my-op.example.com/kopf-managed",
                "my-op.example.com/last-handled-configuration"
            ]
        );
    });
}

#[test]
fn operators_with_different_prefixes_are_independent() {
    everywhere(async |stage| {
        let first = stage.operator([on::create("make_a"), on::update("updated_a")]);
        let _first = first.start().await;
        let second = stage.operator([on::create("make_b"), on::update("updated_b")]);
        let _second = second
            .settings(|settings| {
                let persistence = &mut settings.persistence;
                let prefix = "other.example.com";
                persistence.progress_storage =
                    Arc::new(AnnotationsProgressStorage::new(prefix).unwrap());
                persistence.diffbase_storage =
                    Arc::new(AnnotationsDiffBaseStorage::new(prefix).unwrap());
                persistence.finalizer = "other.example.com/finalizer".into();
            })
            .start()
            .await;
        stage.create("obj", json!({"field": 1})).await;
        let both = |object: &Value| {
            annotation(object, "kopf.zalando.org/last-handled-configuration")
                == annotation(object, "other.example.com/last-handled-configuration")
        };
        let handled = |object: &Value, field: i32| {
            let text = annotation(object, "other.example.com/last-handled-configuration");
            both(object) && text.contains(&format!("\"field\":{field}"))
        };
        stage
            .until("obj", "handled by both", |o| handled(o, 1))
            .await;
        stage.settled().await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage
            .until("obj", "handled by both", |o| handled(o, 2))
            .await;
        stage.settled().await;
        let mut ids = stage.journal.ids();
        ids.sort();
        assert_eq!(ids, ["make_a", "make_b", "updated_a", "updated_b"]);
    });
}

#[test]
fn state_can_be_stored_in_the_status() {
    sandboxed(async |stage| {
        let setup = stage.operator([failing_once(), on::update("updated")]);
        let _operator = setup
            .settings(|settings| {
                let persistence = &mut settings.persistence;
                persistence.progress_storage = Arc::new(StatusProgressStorage::default());
                persistence.diffbase_storage = Arc::new(StatusDiffBaseStorage::default());
            })
            .start()
            .await;
        stage.create_settled("obj", json!({"field": 1})).await;
        let object = stage.get("obj").await;
        assert_eq!(object["status"]["kopf"]["progress"]["make"]["retries"], 1);
        let status = &object["status"]["kopf"];
        assert!(status.get("attempted-essences").is_some(), "{status}");
        assert!(own_annotations(&object).is_empty());
        stage.pass(2.0).await;
        let object = stage.get("obj").await;
        assert!(own_annotations(&object).is_empty());
        assert_eq!(object["status"]["kopf"]["progress"], json!({}));
        let text = object["status"]["kopf"]["last-handled-configuration"].as_str();
        assert_eq!(text, Some("{\"spec\":{\"field\":1}}"));
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.settled().await;
        assert_eq!(stage.journal.count("updated"), 1);
    });
}

#[test]
fn all_storages_are_written_and_the_first_one_is_read() {
    sandboxed(async |stage| {
        let setup = stage.operator([failing_once()]);
        let _operator = setup
            .settings(|settings| {
                let storages: [Arc<dyn ProgressStorage>; 2] = [
                    Arc::new(StatusProgressStorage::default()),
                    Arc::new(AnnotationsProgressStorage::default()),
                ];
                settings.persistence.progress_storage =
                    Arc::new(MultiProgressStorage::new(storages));
            })
            .start()
            .await;
        stage.create_settled("obj", json!({})).await;
        let object = stage.get("obj").await;
        assert_eq!(object["status"]["kopf"]["progress"]["make"]["retries"], 1);
        assert_eq!(progress(&object, "make")["retries"], 1);
        stage.pass(2.0).await;
        let object = stage.get("obj").await;
        assert_eq!(object["status"]["kopf"]["progress"], json!({}));
        assert_eq!(own_annotations(&object), ["last-handled-configuration"]);
        let retries: Vec<_> = stage.journal.all().iter().map(|e| e.retry).collect();
        assert_eq!(retries, [0, 1]);
    });
}

/// A custom storage outside of objects.
#[derive(Debug, Default)]
struct Elsewhere(std::sync::Mutex<std::collections::BTreeMap<String, Value>>);

impl DiffBaseStorage for Elsewhere {
    fn build(
        &self,
        body: &kopf_core::body::Body,
        extra_fields: &[kopf_core::field::FieldPath],
    ) -> Result<Value, kopf_core::diffbase::StorageError> {
        AnnotationsDiffBaseStorage::default().build(body, extra_fields)
    }

    fn strip(&self, _: &kopf_core::body::Body, _: &mut Value) {}

    fn fetch(
        &self,
        body: &kopf_core::body::Body,
    ) -> Result<Option<Value>, kopf_core::diffbase::StorageError> {
        let known = self.0.lock().unwrap();
        Ok(body.uid().and_then(|uid| known.get(uid).cloned()))
    }

    fn store(
        &self,
        body: &kopf_core::body::Body,
        _: &mut kopf_core::patch::Patch,
        essence: &Value,
    ) -> Result<(), kopf_core::diffbase::StorageError> {
        let uid = body.uid().unwrap_or_default().to_owned();
        self.0.lock().unwrap().insert(uid, essence.clone());
        Ok(())
    }
}

#[test]
fn storages_can_be_custom() {
    everywhere(async |stage| {
        let elsewhere = Arc::new(Elsewhere::default());
        let storage = Arc::clone(&elsewhere);
        let _operator = stage
            .operator([on::create("created"), on::update("updated")])
            .settings(move |settings| settings.persistence.diffbase_storage = storage)
            .start()
            .await;
        let made = stage.create("obj", json!({"field": 1})).await;
        stage
            .wait_for("the object to be handled", || {
                stage.journal.count("created") > 0
            })
            .await;
        stage.settled().await;
        assert_eq!(stage.get("obj").await, made, "no writes to the object");
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage
            .wait_for("the change to be handled", || {
                stage.journal.count("updated") > 0
            })
            .await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["created", "updated"]);
        let known: Vec<_> = elsewhere.0.lock().unwrap().values().cloned().collect();
        assert_eq!(known, [json!({"spec": {"field": 2}})]);
    });
}

#[test]
fn state_copied_from_deployments_to_replica_sets_is_ignored() {
    everywhere(async |stage| {
        let _operator = stage
            .run([on::create("made").on(&["apps", "v1", "replicasets"])])
            .await;
        let path = stage.api.group_path("apps/v1", "deployments");
        let deployment = objects::deployment("web");
        let deployment = stage.api.created(&path, &deployment).await;
        let mut replica_set = objects::deployment("web");
        replica_set["kind"] = json!("ReplicaSet");
        let owner = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "name": "web",
            "uid": deployment.uid(), "controller": true,
        });
        replica_set["metadata"]["ownerReferences"] = json!([owner]);
        let copied = "kopf.zalando.org/last-handled-configuration";
        replica_set["metadata"]["annotations"] = json!({copied: "{\"spec\":{}}\n"});
        let path = stage.api.group_path("apps/v1", "replicasets");
        stage.api.created(&path, &replica_set).await;
        stage
            .wait_for("the object to be handled", || {
                stage
                    .writes()
                    .iter()
                    .any(kopf_testing::recording::Call::is_accepted)
            })
            .await;
        let writes = stage.writes();
        let annotations = writes[0].body["metadata"]["annotations"]
            .as_object()
            .unwrap();
        let keys: Vec<_> = annotations.keys().collect();
        assert_eq!(keys, ["kopf.zalando.org/last-handled-configuration-ofDRS"]);
        assert_eq!(stage.journal.reasons(), [("made".to_owned(), "create")]);
    });
}

/// A progress record of the original with a message decoded from invalid bytes.
const SURROGATE: &str = r#"{"started":"2026-01-02T03:04:05.678901+00:00","purpose":"create","retries":1,"success":false,"failure":false,"message":"\ud800"}"#;

#[test]
fn records_with_lone_surrogates_are_continued() {
    sandboxed(async |stage| {
        let annotations = json!({"kopf.zalando.org/make": SURROGATE});
        stage
            .create_with("obj", json!({"metadata": {"annotations": annotations}}))
            .await;
        let _operator = stage.run([on::create("make")]).await;
        stage.until_handled("obj").await;
        assert_eq!(stage.journal.only("make").retry, 1);
    });
}

#[test]
fn objects_with_invalid_state_are_not_new_and_can_be_deleted() {
    sandboxed(async |stage| {
        let annotations = json!({
            "kopf.zalando.org/last-handled-configuration": "{broken",
            "kopf.zalando.org/drop": "{broken, too",
        });
        let metadata = json!({"annotations": annotations});
        stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        let _operator = stage.run([on::create("make"), on::delete("drop")]).await;
        let line = "the state stored in kopf.zalando.org/last-handled-configuration is not JSON";
        stage
            .wait_for("the error to be logged", || stage.log.has("obj", line))
            .await;
        assert_eq!(stage.journal.count("make"), 0);
        // As if the object had been handled before the state was corrupted.
        let finalizers = json!({"finalizers": ["kopf.zalando.org/KopfFinalizerMarker"]});
        stage.merge("obj", json!({"metadata": finalizers})).await;
        stage.delete_and_wait("obj").await;
        assert_eq!(stage.journal.ids(), ["drop"]);
        for place in ["last-handled-configuration", "drop"] {
            let line = format!(
                "The deletion ignores unreadable state of the object: the state stored in \
                 kopf.zalando.org/{place} is not JSON"
            );
            assert!(stage.log.has("obj", &line), "{line}");
        }
    });
}

#[test]
fn integers_beyond_64_bits_keep_their_digits() {
    sandboxed(async |stage| {
        let _operator = stage.run([on::create("make"), on::update("change")]).await;
        let object = stage
            .create_handled("obj", json!({"v": 18_446_744_073_709_552_000_f64}))
            .await;
        assert_eq!(
            annotation(&object, "kopf.zalando.org/last-handled-configuration"),
            "{\"spec\":{\"v\":18446744073709552000}}\n"
        );
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["make"]);
    });
}

/// A storage that tracks only `spec.field`.
#[derive(Debug)]
struct OneField;

impl DiffBaseStorage for OneField {
    fn build(&self, body: &Body, _: &[FieldPath]) -> Result<Value, StorageError> {
        assert_eq!(body.name(), Some("obj"), "the object has an identity");
        Ok(json!({"spec": {"field": body.value()["spec"]["field"]}}))
    }

    fn strip(&self, _: &Body, _: &mut Value) {}

    fn fetch(&self, _: &Body) -> Result<Option<Value>, StorageError> {
        Ok(None)
    }

    fn store(&self, _: &Body, _: &mut Patch, _: &Value) -> Result<(), StorageError> {
        Ok(())
    }
}

#[test]
fn every_storage_reduces_the_essence() {
    everywhere(async |stage| {
        let _operator = stage
            .operator([on::create("make"), on::update("updated")])
            .settings(|settings| {
                let usual: Arc<dyn DiffBaseStorage> =
                    Arc::new(AnnotationsDiffBaseStorage::default());
                let storages = [usual, Arc::new(OneField)];
                settings.persistence.diffbase_storage =
                    Arc::new(MultiDiffBaseStorage::new(storages));
            })
            .start()
            .await;
        let key = "kopf.zalando.org/last-handled-configuration";
        stage.create("obj", json!({"field": 1, "other": 1})).await;
        let object = stage
            .until("obj", "handled", |object| {
                !annotation(object, key).is_empty()
            })
            .await;
        let stored = annotation(&object, key);
        assert_eq!(stored, "{\"spec\":{\"field\":1}}\n");
        stage.settled().await;
        stage.merge("obj", json!({"spec": {"other": 2}})).await;
        stage.settled().await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage
            .wait_for("the update", || stage.journal.count("updated") > 0)
            .await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["make", "updated"]);
    });
}

#[test]
fn state_can_be_stored_without_a_prefix() {
    everywhere(async |stage| {
        let _operator = stage
            .operator([failing_once(), on::update("updated")])
            .settings(|settings| {
                let persistence = &mut settings.persistence;
                let progress = AnnotationsProgressStorage::new("").unwrap();
                persistence.progress_storage = Arc::new(progress);
                let diffbase = AnnotationsDiffBaseStorage::new("").unwrap();
                persistence.diffbase_storage = Arc::new(diffbase);
                persistence.finalizer = "marker".to_owned();
            })
            .start()
            .await;
        stage.create("obj", json!({"field": 1})).await;
        stage
            .until("obj", "in progress", |object| {
                !annotation(object, "make").is_empty()
            })
            .await;
        let object = stage
            .until("obj", "handled", |object| {
                !annotation(object, "last-handled-configuration").is_empty()
            })
            .await;
        assert_eq!(
            annotation(&object, "last-handled-configuration"),
            "{\"spec\":{\"field\":1}}\n"
        );
        stage.settled().await;
        assert_eq!(
            stage.journal.ids(),
            ["make", "make"],
            "own writes are not updates"
        );
    });
}

#[test]
fn finalizers_need_no_domain() {
    everywhere(async |stage| {
        let _operator = stage
            .operator([on::delete("unmake")])
            .settings(|settings| settings.persistence.finalizer = "marker".to_owned())
            .start()
            .await;
        stage.create("obj", json!({})).await;
        stage
            .until("obj", "guarded", |object| finalizers(object) == ["marker"])
            .await;
        stage.delete_and_wait("obj").await;
        assert_eq!(stage.journal.ids(), ["unmake"]);
    });
}
