//! Tests of the storages with realistic objects.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests are tests, too"
)]

use std::sync::Arc;

use kopf_core::body::{Body, ManagedFields};
use kopf_core::diffbase::{
    AnnotationsDiffBaseStorage, DiffBaseStorage, MultiDiffBaseStorage, StatusDiffBaseStorage,
};
use kopf_core::key_order::InOrder;
use kopf_core::patch::Patch;
use kopf_core::progress::{
    AnnotationsProgressStorage, MultiProgressStorage, ProgressRecord, ProgressStorage,
    SmartProgressStorage, StatusProgressStorage, StorageError,
};
use kopf_core::timestamp;
use serde_json::{Value, json};

const PREFIX: &str = "my-op.example.com";

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

/// Returns the storages of the recording s13.
fn multi() -> (MultiProgressStorage, MultiDiffBaseStorage) {
    (
        MultiProgressStorage::new([
            Arc::new(AnnotationsProgressStorage::new(PREFIX).unwrap()) as Arc<dyn ProgressStorage>,
            Arc::new(StatusProgressStorage::default().field("status.my-op")),
        ]),
        MultiDiffBaseStorage::new([
            Arc::new(StatusDiffBaseStorage::default().field("status.base"))
                as Arc<dyn DiffBaseStorage>,
            Arc::new(AnnotationsDiffBaseStorage::new(PREFIX).unwrap().key("last")),
        ]),
    )
}

#[test]
fn custom_storages_match_the_recording() {
    let (progress, diffbase) = multi();
    let body = Body::new(json!({"metadata": {"name": "obj"}, "spec": {"field": "value"}}));
    let text = r#"{"started":"2026-11-15T00:39:38.506599+00:00","delayed":"2026-11-15T00:39:39.507599+00:00","purpose":"create","retries":1,"success":false,"failure":false,"message":"not yet"}"#;
    let native = json!({
        "started": "2026-11-15T00:39:38.506599+00:00", "stopped": null,
        "delayed": "2026-11-15T00:39:39.507599+00:00", "purpose": "create", "retries": 1,
        "success": false, "failure": false, "message": "not yet", "subrefs": null,
    });
    let stored = patched(|patch| progress.store("make", &record(), &body, patch).unwrap());
    let expected = json!({
        "metadata": {"annotations": {
            "my-op.example.com/make": text, "my-op.example.com/kopf-managed": "yes",
        }},
        "status": {"my-op": {"make": native}},
    });
    assert_eq!(stored, expected);

    let moment = "2026-11-15T00:39:39.508420+00:00";
    let in_progress = Body::new(json!({
        "metadata": {"annotations": {
            "my-op.example.com/make": text, "my-op.example.com/kopf-managed": "yes",
        }},
        "status": {"my-op": {"make": native}},
        "spec": {"field": "value", "items": ["a", "b"]},
    }));
    assert_eq!(
        patched(|patch| progress.touch(&in_progress, patch, Some(moment)).unwrap()),
        json!({
            "metadata": {"annotations": {"my-op.example.com/touch-dummy": moment}},
            "status": {"kopf": {"dummy": moment}},
        })
    );

    let touched = Body::new(json!({
        "metadata": {"annotations": {
            "my-op.example.com/make": text, "my-op.example.com/kopf-managed": "yes",
            "my-op.example.com/touch-dummy": moment,
        }},
        "status": {"my-op": {"make": native}, "kopf": {"dummy": moment}},
        "spec": {"field": "value", "items": ["a", "b"]},
    }));
    let done = patched(|patch| {
        progress.purge("make", &touched, patch).unwrap();
        let mut essence = diffbase.build(&touched, &[]).unwrap();
        progress.clear(&mut essence).unwrap();
        diffbase.store(&touched, patch, &essence).unwrap();
        progress.touch(&touched, patch, None).unwrap();
    });
    let base = r#"{"spec":{"field":"value","items":["a","b"]}}"#;
    let expected = json!({
        "metadata": {"annotations": {
            "my-op.example.com/make": null,
            "my-op.example.com/last": format!("{base}\n"),
            "my-op.example.com/touch-dummy": null,
        }},
        "status": {"my-op": {"make": null}, "base": base, "kopf": {"dummy": null}},
    });
    assert_eq!(done, expected);
}

#[test]
fn multiple_storages_are_read_in_order_and_all_stripped() {
    let (progress, diffbase) = multi();
    let body = Body::new(json!({
        "metadata": {"annotations": {"my-op.example.com/last": "{\"spec\":2}", "plain": "1"}},
        "status": {"my-op": {"make": {"retries": 7}}, "base": "{\"spec\":1}", "x": 1},
        "spec": {"a": 1},
    }));
    assert_eq!(progress.fetch("make", &body).unwrap().unwrap().retries, 7);
    assert!(progress.fetch("other", &body).unwrap().is_none());
    assert_eq!(diffbase.fetch(&body).unwrap(), Some(json!({"spec": 1})));
    let mut essence = diffbase.build(&body, &["status".into()]).unwrap();
    progress.clear(&mut essence).unwrap();
    let expected = json!({
        "metadata": {"annotations": {"plain": "1"}}, "spec": {"a": 1}, "status": {"x": 1},
    });
    assert_eq!(essence, expected);
    progress.flush().unwrap();
}

#[test]
fn custom_prefix_is_marked() {
    let diffbase = AnnotationsDiffBaseStorage::new(PREFIX).unwrap();
    let body = Body::new(json!({"spec": {}}));
    let stored = patched(|patch| diffbase.store(&body, patch, &json!({"spec": {}})).unwrap());
    let expected = json!({"metadata": {"annotations": {
        "my-op.example.com/kopf-managed": "yes",
        "my-op.example.com/last-handled-configuration": "{\"spec\":{}}\n",
    }}});
    assert_eq!(stored, expected);
    // Once written, it is an essence without both.
    let body = Body::new(stored);
    assert_eq!(diffbase.build(&body, &[]).unwrap(), json!({}));
    assert_eq!(diffbase.fetch(&body).unwrap(), Some(json!({"spec": {}})));
}

#[test]
fn verbose_records_have_nulls() {
    let storage = AnnotationsProgressStorage::default().verbose(true);
    let body = Body::new(json!({}));
    let stored = patched(|patch| storage.store("fn", &record(), &body, patch).unwrap());
    let text = stored["metadata"]["annotations"]["kopf.zalando.org/fn"]
        .as_str()
        .unwrap();
    assert!(
        text.contains(r#""stopped":null"#) && text.ends_with(r#""subrefs":null}"#),
        "{text}"
    );
    assert_eq!(
        storage.fetch("fn", &Body::new(stored.clone())).unwrap(),
        Some(record())
    );
}

#[test]
fn records_stored_and_purged_in_one_cycle_leave_nothing() {
    let body = Body::new(json!({}));
    let storages: [Arc<dyn ProgressStorage>; 3] = [
        Arc::new(AnnotationsProgressStorage::default()),
        Arc::new(StatusProgressStorage::default()),
        Arc::new(SmartProgressStorage::default()),
    ];
    for storage in storages {
        let left = patched(|patch| {
            storage.store("fn/spec.x", &record(), &body, patch).unwrap();
            storage.purge("fn/spec.x", &body, patch).unwrap();
        });
        assert_eq!(left, json!({}), "{storage:?}");
    }
}

#[test]
fn touching_is_repeated_only_with_another_value() {
    let body = Body::new(json!({
        "metadata": {"annotations": {"kopf.zalando.org/touch-dummy": "a"}},
        "status": {"kopf": {"dummy": "a"}},
    }));
    let storages: [Arc<dyn ProgressStorage>; 2] = [
        Arc::new(AnnotationsProgressStorage::default()),
        Arc::new(StatusProgressStorage::default()),
    ];
    for storage in storages {
        let touch = |body: &Body, value| {
            patched(|patch| storage.touch(body, patch, value).unwrap()) == json!({})
        };
        assert!(touch(&body, Some("a")) && !touch(&body, Some("b")) && !touch(&body, None));
        let clean = Body::new(json!({}));
        assert!(touch(&clean, None) && !touch(&clean, Some("a")));
    }
}

#[test]
fn ignored_fields_are_not_in_the_essence() {
    let body = Body::new(json!({"spec": {"replicas": 1, "a": 2}, "status": {"x": 1}}));
    let annotations = AnnotationsDiffBaseStorage::default().ignored_fields(["spec.replicas"]);
    assert_eq!(
        annotations.build(&body, &[]).unwrap(),
        json!({"spec": {"a": 2}})
    );
    let status = StatusDiffBaseStorage::default().ignored_fields(["spec.a", "status.x"]);
    let extra = ["status.x".into()];
    assert_eq!(
        status.build(&body, &extra).unwrap(),
        json!({"spec": {"replicas": 1}})
    );
    let multi = MultiDiffBaseStorage::new([
        Arc::new(annotations) as Arc<dyn DiffBaseStorage>,
        Arc::new(status),
    ]);
    assert_eq!(multi.build(&body, &extra).unwrap(), json!({}));
}

#[test]
fn stored_essence_is_recognised_without_parsing() {
    let body = Body::new(json!({"spec": {"a": ["ä", 1.0]}, "status": {"x": 1}}));
    let storages: [Arc<dyn DiffBaseStorage>; 3] = [
        Arc::new(
            AnnotationsDiffBaseStorage::new(PREFIX)
                .unwrap()
                .key("x".repeat(50)),
        ),
        Arc::new(StatusDiffBaseStorage::default()),
        Arc::new(multi().1),
    ];
    for storage in storages {
        let essence = storage.build(&body, &[]).unwrap();
        assert!(!storage.is_stored(&body, &essence));
        let mut stored = body.value().clone();
        let patch = patched(|patch| storage.store(&body, patch, &essence).unwrap());
        json_patch::merge(&mut stored, &patch);
        let stored = Body::new(stored);
        assert!(storage.is_stored(&stored, &essence), "{storage:?}");
        assert!(!storage.is_stored(&stored, &json!({"spec": {"a": ["ä", 2.0]}})));
        assert!(!storage.is_stored(&stored, &json!({})));
        assert_eq!(storage.fetch(&stored).unwrap(), Some(essence));
    }
}

#[test]
fn custom_errors_keep_their_cause() {
    let error = StorageError::custom("no connection");
    assert_eq!(
        std::error::Error::source(&error).unwrap().to_string(),
        "no connection"
    );
}

#[test]
fn essences_are_stored_in_the_order_of_the_body() {
    let text = r#"{"kind":"K","metadata":{"labels":{"y":"1","x":"2"}},"spec":{"b":1,"a":2}}"#;
    let (body, _) = Body::parse_with(text.as_bytes(), ManagedFields::Keep).unwrap();
    let sorted = Body::parse(text.as_bytes()).unwrap();
    let expected = r#"{"metadata":{"labels":{"y":"1","x":"2"}},"spec":{"b":1,"a":2}}"#;
    let storages: [(Arc<dyn DiffBaseStorage>, &str); 2] = [
        (
            Arc::new(AnnotationsDiffBaseStorage::default()),
            "/metadata/annotations/kopf.zalando.org~1last-handled-configuration",
        ),
        (
            Arc::new(StatusDiffBaseStorage::default()),
            "/status/kopf/last-handled-configuration",
        ),
    ];
    for (storage, place) in storages {
        let storage = MultiDiffBaseStorage::new([storage]);
        let essence = storage.build(&body, &[]).unwrap();
        let patch = patched(|patch| storage.store(&body, patch, &essence).unwrap());
        let stored = patch.pointer(place).unwrap().as_str().unwrap();
        assert_eq!(stored.trim_end(), expected);
        let mut handled = sorted.value().clone();
        json_patch::merge(&mut handled, &patch);
        let with_order = Body::new(handled.clone()).with_order(body.order().cloned());
        assert!(storage.is_stored(&with_order, &essence), "without parsing");
        let without = Body::new(handled);
        assert!(!storage.is_stored(&without, &essence), "unknown");
        assert_eq!(storage.fetch(&without).unwrap().as_ref(), Some(&essence));
        let order = storage.key_order(&without).unwrap();
        assert_eq!(
            serde_json::to_string(&InOrder(&essence, Some(&order))).unwrap(),
            expected
        );
        let patch = patched(|patch| storage.store(&sorted, patch, &essence).unwrap());
        let stored = patch.pointer(place).unwrap().as_str().unwrap();
        assert_eq!(stored.trim_end(), essence.to_string());
    }
}
