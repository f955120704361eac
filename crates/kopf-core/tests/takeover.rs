//! Tests of state of others on objects: older versions, other implementations, and people.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests are tests, too"
)]

use kopf_core::body::Body;
use kopf_core::diffbase::{AnnotationsDiffBaseStorage, DiffBaseStorage, StatusDiffBaseStorage};
use kopf_core::patch::Patch;
use kopf_core::progress::{
    AnnotationsProgressStorage, ProgressRecord, ProgressStorage, SmartProgressStorage,
    StatusProgressStorage, StorageError,
};
use kopf_core::timestamp;
use serde_json::{Value, json};

fn patched(action: impl FnOnce(&mut Patch)) -> Value {
    let mut patch = Patch::default();
    action(&mut patch);
    Value::Object(patch.merge)
}

fn record() -> ProgressRecord {
    let mut record = ProgressRecord::default();
    record.started = timestamp::parse("2026-11-15T00:39:38.506599Z").ok();
    record.delayed = timestamp::parse("2026-11-15T00:39:39.507599Z").ok();
    record.purpose = Some("create".to_owned());
    record.retries = 1;
    record.message = Some("not yet".to_owned());
    record
}

#[test]
fn object_in_progress_is_taken_over() {
    let body = Body::new(json!({"metadata": {"annotations": {
        "kopf.zalando.org/create_fn": r#"{"started":"2026-01-02T03:04:05.000001+00:00","delayed":"2026-01-02T03:05:05.000001+00:00","purpose":"create","retries":1,"success":false,"failure":false,"message":"None","subrefs":["create_fn/item1","create_fn/item2"]}"#,
        "kopf.zalando.org/create_fn.item1": r#"{"started":"2026-01-02T03:04:05.000002+00:00","stopped":"2026-01-02T03:04:05.100000+00:00","purpose":"create","retries":1,"success":true,"failure":false}"#,
        "kopf.zalando.org/create_fn.item2": r#"{"started":"2026-01-02T03:04:05.000002+00:00","delayed":"2026-01-02T03:05:05.000001+00:00","purpose":"create","retries":1,"success":false,"failure":false,"message":"not yet"}"#,
        "kopf.zalando.org/other_fn": r#"{"started":"2026-01-02T03:04:05.000001+00:00","stopped":"2026-01-02T03:04:06.000000+00:00","purpose":"create","retries":1,"success":false,"failure":true,"message":"bad spec"}"#,
        "kopf.zalando.org/touch-dummy": "2026-01-02T03:05:05.000001+00:00",
    }}, "spec": {"a": 1}}));
    let storage = SmartProgressStorage::default();
    let diffbase = AnnotationsDiffBaseStorage::default();
    let ids = [
        "create_fn",
        "create_fn/item1",
        "create_fn/item2",
        "other_fn",
    ];
    let records = ids.map(|id| storage.fetch(id, &body).unwrap().unwrap());
    assert_eq!(records[0].subrefs, ["create_fn/item1", "create_fn/item2"]);
    assert!(records[1].success && records[1].stopped.is_some());
    assert_eq!(records[2].message.as_deref(), Some("not yet"));
    assert!(records[3].failure);
    assert_eq!(diffbase.fetch(&body).unwrap(), None);

    // Stored unchanged, they are the same strings.
    let again = patched(|patch| {
        for (id, record) in ids.iter().zip(&records) {
            storage.store(id, record, &body, patch).unwrap();
        }
    });
    for (key, text) in again["metadata"]["annotations"].as_object().unwrap() {
        assert_eq!(text.as_str(), body.annotation(key));
    }

    let done = patched(|patch| {
        for id in ids {
            storage.purge(id, &body, patch).unwrap();
        }
        let mut essence = diffbase.build(&body, &[]).unwrap();
        storage.clear(&mut essence).unwrap();
        diffbase.store(&body, patch, &essence).unwrap();
        storage.touch(&body, patch, None).unwrap();
    });
    let expected = json!({"metadata": {"annotations": {
        "kopf.zalando.org/create_fn": null,
        "kopf.zalando.org/create_fn.item1": null,
        "kopf.zalando.org/create_fn.item2": null,
        "kopf.zalando.org/other_fn": null,
        "kopf.zalando.org/touch-dummy": null,
        "kopf.zalando.org/last-handled-configuration": "{\"spec\":{\"a\":1}}\n",
    }}});
    assert_eq!(done, expected);
}

#[test]
fn replica_set_ignores_the_state_of_its_deployment() {
    let body = Body::new(json!({
        "kind": "ReplicaSet",
        "metadata": {
            "ownerReferences": [{"kind": "Deployment"}],
            "annotations": {
                "kopf.zalando.org/last-handled-configuration": "{\"of\":\"deployment\"}",
                "kopf.zalando.org/create_fn": "{\"retries\":5}",
            },
        },
        "spec": {"replicas": 1},
    }));
    let progress = SmartProgressStorage::default();
    let diffbase = AnnotationsDiffBaseStorage::default();
    assert_eq!(progress.fetch("create_fn", &body).unwrap(), None);
    assert_eq!(diffbase.fetch(&body).unwrap(), None);
    let essence = diffbase.build(&body, &[]).unwrap();
    assert_eq!(essence, json!({"spec": {"replicas": 1}}));
    let stored = patched(|patch| {
        diffbase.store(&body, patch, &essence).unwrap();
        progress
            .store("create_fn", &ProgressRecord::default(), &body, patch)
            .unwrap();
        progress.touch(&body, patch, Some("now")).unwrap();
        progress.purge("update_fn", &body, patch).unwrap();
    });
    let keys: Vec<_> = stored["metadata"]["annotations"]
        .as_object()
        .unwrap()
        .keys()
        .collect();
    assert_eq!(
        keys,
        [
            "kopf.zalando.org/create_fn-ofDRS",
            "kopf.zalando.org/last-handled-configuration-ofDRS",
            "kopf.zalando.org/touch-dummy-ofDRS",
        ]
    );
}

#[test]
fn legacy_status_is_read_and_purged_but_not_written() {
    let body = Body::new(json!({"status": {"kopf": {
        "dummy": "2019-12-31T23:59:59.123456",
        "progress": {
            "create_fn": {"started": "2019-12-31T23:59:59.123456", "retries": 1,
                "delayed": "2020-01-01T00:00:59.123456", "success": false, "failure": false,
                "message": "not ready"},
            "create_fn/sub.x": {"retries": 2},
        },
        "last-handled-configuration": "{\"spec\":{}}",
    }}}));
    let storage = SmartProgressStorage::default();
    assert_eq!(
        storage.fetch("create_fn", &body).unwrap().unwrap().retries,
        1
    );
    assert_eq!(
        storage
            .fetch("create_fn/sub.x", &body)
            .unwrap()
            .unwrap()
            .retries,
        2
    );
    let stored = patched(|patch| {
        storage.store("create_fn", &record(), &body, patch).unwrap();
        storage.touch(&body, patch, None).unwrap();
    });
    assert_eq!(stored.get("status"), None);
    let purged = patched(|patch| {
        storage.store("create_fn", &record(), &body, patch).unwrap();
        storage.purge("create_fn", &body, patch).unwrap();
        storage.purge("create_fn/sub.x", &body, patch).unwrap();
    });
    let expected = json!({
        "status": {"kopf": {"progress": {"create_fn": null, "create_fn/sub.x": null}}},
    });
    assert_eq!(purged, expected);
    assert_eq!(
        StatusDiffBaseStorage::default().fetch(&body).unwrap(),
        Some(json!({"spec": {}}))
    );
    let mut essence = json!({"status": {"kopf": {"progress": {"a": 1}, "dummy": "x"}}});
    storage.clear(&mut essence).unwrap();
    assert_eq!(essence, json!({"status": {"kopf": {"dummy": "x"}}}));
}

#[test]
fn annotations_take_precedence_over_the_status() {
    let storage = SmartProgressStorage::default();
    let with = |annotation: &str| {
        Body::new(json!({
            "metadata": {"annotations": {"kopf.zalando.org/fn": annotation}},
            "status": {"kopf": {"progress": {"fn": {"retries": 2}}}},
        }))
    };
    assert_eq!(
        storage
            .fetch("fn", &with("{\"retries\":1}"))
            .unwrap()
            .unwrap()
            .retries,
        1
    );
    assert_eq!(
        storage.fetch("fn", &with("null")).unwrap().unwrap().retries,
        2
    );
    let diffbase = AnnotationsDiffBaseStorage::default().key("fn");
    assert_eq!(diffbase.fetch(&with("null")).unwrap(), None);
    assert_eq!(diffbase.fetch(&with("{}\n")).unwrap(), Some(json!({})));
}

#[test]
fn both_names_are_written_and_the_newer_is_read_first() {
    let id = "x".repeat(50);
    let storage = AnnotationsProgressStorage::default();
    let body = Body::new(json!({}));
    let stored = patched(|patch| storage.store(&id, &record(), &body, patch).unwrap());
    assert_eq!(
        stored["metadata"]["annotations"].as_object().unwrap().len(),
        2
    );
    let v2 = format!("kopf.zalando.org/{id}");
    let mut only_v1 = stored.clone();
    only_v1["metadata"]["annotations"]
        .as_object_mut()
        .unwrap()
        .remove(&v2);
    assert_eq!(
        storage.fetch(&id, &Body::new(only_v1)).unwrap(),
        Some(record())
    );
    let mut both = stored;
    both["metadata"]["annotations"][&v2] = json!("{\"retries\":9}");
    assert_eq!(
        storage
            .fetch(&id, &Body::new(both))
            .unwrap()
            .unwrap()
            .retries,
        9
    );
}

#[test]
fn undecodable_annotations_stop_the_cycle_with_their_name() {
    let progress = SmartProgressStorage::default();
    let diffbase = AnnotationsDiffBaseStorage::default().key("fn");
    for text in ["", "{", "oops", "[1]", "1", "\"x\""] {
        let body = Body::new(json!({"metadata": {"annotations": {"kopf.zalando.org/fn": text}}}));
        for error in [
            progress.fetch("fn", &body).unwrap_err(),
            diffbase.fetch(&body).unwrap_err(),
        ] {
            assert!(error.to_string().contains("kopf.zalando.org/fn"), "{error}");
        }
    }
    let deep = "[".repeat(100_000);
    let body = Body::new(json!({"metadata": {"annotations": {"kopf.zalando.org/fn": deep}}}));
    assert!(matches!(
        diffbase.fetch(&body),
        Err(StorageError::Undecodable { .. })
    ));
}

#[test]
fn malformed_status_counts_as_absent() {
    let progress = StatusProgressStorage::default();
    for status in [
        json!(null),
        json!("x"),
        json!({"kopf": 1}),
        json!({"kopf": {"progress": [1]}}),
        json!({"kopf": {"progress": {"fn": "x"}}}),
        json!({"kopf": {"progress": {"fn": null}}}),
    ] {
        let body = Body::new(json!({"status": status}));
        assert_eq!(progress.fetch("fn", &body).unwrap(), None);
        let touched = patched(|patch| progress.touch(&body, patch, Some("x")).unwrap());
        assert_eq!(touched, json!({"status": {"kopf": {"dummy": "x"}}}));
        patched(|patch| progress.purge("fn", &body, patch).unwrap());
    }
    let diffbase = StatusDiffBaseStorage::default();
    let with = |value: Value| {
        Body::new(json!({"status": {"kopf": {"last-handled-configuration": value}}}))
    };
    assert_eq!(diffbase.fetch(&with(json!(null))).unwrap(), None);
    for garbage in [json!({}), json!(1), json!("{"), json!("1")] {
        let error = diffbase.fetch(&with(garbage)).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("status.kopf.last-handled-configuration"),
            "{error}"
        );
    }
    for mut essence in [
        json!(null),
        json!([1]),
        json!({"status": 1}),
        json!({"metadata": []}),
    ] {
        let before = essence.clone();
        SmartProgressStorage::default().clear(&mut essence).unwrap();
        assert_eq!(essence, before);
    }
}
