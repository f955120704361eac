//! Objects as the original leaves them in the middle of its work: we go on from there.

use kopf_core::handler::ErrorsMode;
use serde_json::{Value, json};

use crate::front::{Declaration, arbitrary, done, gives, on, register, temporary};
use crate::golden::recorded_object;
use crate::stage::{
    FINALIZER, LAST_HANDLED, Stage, everywhere, finalizers, is_handled, last_handled,
    own_annotations, sandboxed_at,
};

/// Puts an object of a recording on the stage.
async fn put(stage: &Stage, recording: &str, step: &str) -> Value {
    let recorded = recorded_object(recording, step);
    let metadata = json!({
        "annotations": recorded["metadata"]["annotations"],
        "finalizers": recorded["metadata"]["finalizers"],
    });
    let mut parts = json!({"metadata": metadata, "spec": recorded["spec"]});
    if recorded["status"].is_object() {
        parts["status"] = recorded["status"].clone();
    }
    stage.create_with("obj", parts).await
}

fn calls(stage: &Stage) -> Vec<(String, u32)> {
    let entries = stage.journal.all().into_iter();
    entries.map(|entry| (entry.id, entry.retry)).collect()
}

fn call(id: &str, retry: u32) -> (String, u32) {
    (id.to_owned(), retry)
}

#[test]
fn half_way_through_retries() {
    // It was delayed until 00:38:27.095081.
    sandboxed_at("2026-11-15T00:38:26.5Z", async |stage| {
        let make = on::create("make").does(|call| async move {
            if call.retry < 2 {
                return temporary("not yet", 1.0);
            }
            gives(json!(call.retry))
        });
        put(stage, "s03-temporary", "first failure").await;
        let _operator = stage.run([make]).await;
        stage.pass(0.5).await;
        assert_eq!(stage.writes(), [], "it is not due yet, and nothing is new");
        stage.pass(0.2).await;
        assert_eq!(calls(stage), [call("make", 1)]);
        let entry = stage.journal.only("make");
        assert_eq!(entry.started.to_string(), "2026-11-15T00:38:26.092081Z");
        stage.pass(10.0).await;
        assert_eq!(calls(stage), [call("make", 1), call("make", 2)]);
        let object = stage.get("obj").await;
        assert!(is_handled(&object), "{object:#}");
        assert_eq!(object["status"]["make"], 2);
    });
}

#[test]
fn with_finished_and_failed_handlers() {
    sandboxed_at("2026-11-15T00:38:40Z", async |stage| {
        let make = on::create("make").backoff(1.0).retries(2);
        let handlers = [
            make.does(|_| async { arbitrary("boom") }),
            on::create("ignored").errors(ErrorsMode::Ignored),
            on::create("permanent").errors(ErrorsMode::Permanent),
        ];
        put(stage, "s04-arbitrary-retries", "in progress").await;
        let _operator = stage.run(handlers).await;
        stage.pass(10.0).await;
        assert_eq!(calls(stage), [call("make", 1)]);
        assert!(
            stage
                .log
                .has("obj", "Creation is processed: 1 succeeded; 2 failed.")
        );
        let object = stage.get("obj").await;
        assert!(is_handled(&object), "{object:#}");
    });
}

#[test]
fn with_sub_handlers() {
    sandboxed_at("2026-11-15T00:38:52.5Z", async |stage| {
        let make = on::create("make").does(|call| async move {
            for item in ["a", "b"] {
                let child =
                    on::sub(item).does(move |_| async move { gives(json!({"item": item})) });
                register(&call, &child);
            }
            gives(json!("parent"))
        });
        put(stage, "s07-subhandlers", "in progress").await;
        let _operator = stage.run([make]).await;
        stage.pass(0.2).await;
        assert_eq!(calls(stage), []);
        stage.pass(10.0).await;
        // The parent was due a millisecond before its child, and may be called for nothing.
        let mut calls = calls(stage);
        calls.retain(|(id, _)| id != "make");
        assert_eq!(calls, [call("make/b", 1)]);
        assert_eq!(stage.journal.of("make")[0].retry, 2);
        let object = stage.get("obj").await;
        assert!(is_handled(&object), "{object:#}");
        let status = json!({"make": "parent", "make/a": {"item": "a"}, "make/b": {"item": "b"}});
        assert_eq!(object["status"], status);
    });
}

/// The reference object of an unfinished creation: one handler waits with one of its sub-handlers
/// done, another one has failed, and the object was touched.
fn reference_object() -> Value {
    let record = |text: &str| json!(text);
    json!({
        "metadata": {
            "finalizers": [FINALIZER],
            "annotations": {
                "kopf.zalando.org/create_fn": record(r#"{"started":"2026-01-02T03:04:05.000001+00:00","delayed":"2026-01-02T03:05:05.000001+00:00","purpose":"create","retries":1,"success":false,"failure":false,"message":"None","subrefs":["create_fn/item1","create_fn/item2"]}"#),
                "kopf.zalando.org/create_fn.item1": record(r#"{"started":"2026-01-02T03:04:05.000002+00:00","stopped":"2026-01-02T03:04:05.100000+00:00","purpose":"create","retries":1,"success":true,"failure":false}"#),
                "kopf.zalando.org/create_fn.item2": record(r#"{"started":"2026-01-02T03:04:05.000002+00:00","delayed":"2026-01-02T03:05:05.000001+00:00","purpose":"create","retries":1,"success":false,"failure":false,"message":"not yet"}"#),
                "kopf.zalando.org/other_fn": record(r#"{"started":"2026-01-02T03:04:05.000001+00:00","stopped":"2026-01-02T03:04:06.000000+00:00","purpose":"create","retries":1,"success":false,"failure":true,"message":"bad spec"}"#),
                "kopf.zalando.org/touch-dummy": "2026-01-02T03:05:05.000001+00:00",
            },
        },
        "spec": {"field": 1},
    })
}

fn reference_handlers() -> Vec<Declaration> {
    let create_fn = on::create("create_fn").does(|call| async move {
        for item in ["item1", "item2"] {
            register(&call, &on::sub(item));
        }
        done()
    });
    vec![create_fn, on::create("other_fn"), on::delete("delete_fn")]
}

#[test]
fn the_reference_object_is_finished() {
    sandboxed_at("2026-01-02T03:04:45Z", async |stage| {
        stage.create_with("obj", reference_object()).await;
        let _operator = stage.run(reference_handlers()).await;
        stage.pass(19.0).await;
        assert_eq!(calls(stage), []);
        stage.pass(2.0).await;
        assert_eq!(
            calls(stage),
            [call("create_fn", 1), call("create_fn/item2", 1)]
        );
        let object = stage.get("obj").await;
        assert!(is_handled(&object), "{object:#}");
        let writes = stage.writes();
        assert_eq!(writes.len(), 1);
        let expected = json!({
            "kopf.zalando.org/create_fn": null,
            "kopf.zalando.org/create_fn.item1": null,
            "kopf.zalando.org/create_fn.item2": null,
            "kopf.zalando.org/other_fn": null,
            "kopf.zalando.org/touch-dummy": null,
            LAST_HANDLED: writes[0].body["metadata"]["annotations"][LAST_HANDLED],
        });
        assert_eq!(writes[0].body["metadata"]["annotations"], expected);
        assert_eq!(last_handled(&object), json!({"spec": {"field": 1}}));
    });
}

#[test]
fn the_reference_object_is_finished_everywhere() {
    // The same in real time, long after everything is due.
    everywhere(async |stage| {
        stage.create_with("obj", reference_object()).await;
        let _operator = stage.run(reference_handlers()).await;
        stage.until_handled("obj").await;
        assert_eq!(
            calls(stage),
            [call("create_fn", 1), call("create_fn/item2", 1)]
        );
    });
}

#[test]
fn an_unfinished_object_can_be_deleted() {
    everywhere(async |stage| {
        let mut parts = reference_object();
        parts["metadata"]["finalizers"] = json!([FINALIZER, "example.com/other"]);
        stage.create_with("obj", parts).await;
        stage.delete("obj").await;
        let _operator = stage.run(reference_handlers()).await;
        let object = stage
            .until("obj", "released", |object| {
                finalizers(object) == ["example.com/other"]
            })
            .await;
        assert_eq!(calls(stage), [call("delete_fn", 0)]);
        assert_eq!(own_annotations(&object), ["last-handled-configuration"]);
        assert!(stage.log.has(
            "obj",
            "Creation is superseded by deletion: 0 succeeded; 1 failed; 1 left to the moment."
        ));
    });
}

#[test]
fn old_records_in_the_status_with_naive_times() {
    sandboxed_at("2019-12-31T23:59:59.5Z", async |stage| {
        let record = json!({
            "started": "2019-12-31T23:59:59.123456", "retries": 1,
            "delayed": "2020-01-01T00:00:59.123456", "success": false, "failure": false,
            "message": "not ready",
        });
        let finished = json!({
            "started": "2019-12-31T23:59:59.123456", "stopped": "2019-12-31T23:59:59.200000",
            "retries": 1, "success": true, "failure": false,
        });
        let progress =
            json!({"create_fn": record, "other_fn": finished, "create_fn/sub": finished});
        let dummy = "2019-12-31T23:59:59.123456";
        let parts = json!({
            "spec": {"field": 1},
            "status": {"kopf": {"dummy": dummy, "progress": progress}, "result": 1},
        });
        stage.create_with("obj", parts).await;
        let create_fn = on::create("create_fn").does(|call| async move {
            register(&call, &on::sub("sub"));
            done()
        });
        let _operator = stage.run([create_fn, on::create("other_fn")]).await;
        stage.pass(59.0).await;
        assert_eq!(calls(stage), []);
        stage.pass(2.0).await;
        assert_eq!(calls(stage), [call("create_fn", 1)], "the others were done");
        let entry = stage.journal.only("create_fn");
        assert_eq!(entry.started.to_string(), "2019-12-31T23:59:59.123456Z");
        let object = stage.get("obj").await;
        assert!(is_handled(&object), "{object:#}");
        assert_eq!(object["status"]["kopf"]["progress"], json!({}));
        assert_eq!(object["status"]["result"], 1);
    });
}

#[test]
fn annotations_win_over_records_in_the_status() {
    sandboxed_at("2026-01-02T03:10:00Z", async |stage| {
        let status = json!({"kopf": {"progress": {"make": {
            "started": "2026-01-02T03:04:05.000001", "retries": 5, "success": false, "failure": false,
        }}}});
        let record = r#"{"started":"2026-01-02T03:04:05.000001+00:00","purpose":"create","retries":2,"success":false,"failure":false}"#;
        let metadata = json!({"annotations": {"kopf.zalando.org/make": record}});
        stage
            .create_with("obj", json!({"metadata": metadata, "status": status}))
            .await;
        let _operator = stage.run([on::create("make")]).await;
        stage.settled().await;
        assert_eq!(calls(stage), [call("make", 2)]);
        let object = stage.get("obj").await;
        assert!(is_handled(&object), "{object:#}");
        assert_eq!(object["status"]["kopf"]["progress"], json!({}));
    });
}

#[test]
fn old_long_keys_are_read_and_removed() {
    everywhere(async |stage| {
        let id = "a-handler-name-of-exactly-fifty-characters-in-total";
        let v2 = format!("kopf.zalando.org/{id}");
        let v1 = "kopf.zalando.org/a-handler-name-of-exactly-fifty-charact-d1EOZQ";
        let record = r#"{"started":"2026-01-02T03:04:05.000001+00:00","purpose":"create","retries":3,"success":false,"failure":false}"#;
        for (name, annotations) in [
            ("v1-only", json!({v1: record})),
            ("both", json!({v1: record, &*v2: record})),
        ] {
            let metadata = json!({"annotations": annotations});
            stage.create_with(name, json!({"metadata": metadata})).await;
        }
        let _operator = stage.run([on::create(id)]).await;
        for name in ["v1-only", "both"] {
            stage.until_handled(name).await;
        }
        stage.settled().await;
        assert_eq!(calls(stage), [call(id, 3), call(id, 3)]);
    });
}

#[test]
fn an_old_diff_base_under_a_long_key_is_read() {
    everywhere(async |stage| {
        // As V1 would have written it: with a prefix so long that the name does not fit.
        let key = "kopf.zalando.org/last-handled-configuration";
        let text = "{\"metadata\":{},\"spec\": {\"field\": 1.0}}\n";
        let metadata = json!({"annotations": {key: text}});
        stage
            .create_with("obj", json!({"metadata": metadata, "spec": {"field": 1}}))
            .await;
        let _operator = stage
            .run([
                on::create("created"),
                on::update("updated"),
                on::resume("resumed"),
            ])
            .await;
        stage
            .until_so("the object to be seen", || !stage.journal.ids().is_empty())
            .await;
        stage.settled().await;
        assert_eq!(
            stage.journal.ids(),
            ["resumed"],
            "1 is 1.0, and nothing is nothing"
        );
    });
}

#[test]
fn handled_objects_are_only_resumed() {
    everywhere(async |stage| {
        put(stage, "s02-finalizer", "created").await;
        let _operator = stage
            .run([on::create("make"), on::resume("up"), on::delete("unmake")])
            .await;
        stage
            .until_so("resuming", || stage.journal.count("up") > 0)
            .await;
        stage.settled().await;
        assert_eq!(stage.journal.reasons(), [("up".to_owned(), "resume")]);
        assert_eq!(stage.writes(), []);
        stage.delete_wholly("obj").await;
        assert_eq!(stage.journal.ids(), ["up", "unmake"]);
    });
}
