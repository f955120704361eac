//! What becomes of entries when index handlers fail.

use std::time::Duration;

use kopf_core::handler::ErrorsMode;
use kopf_engine::invocation::{Call, HandlerResult};
use serde_json::json;

use crate::front::{Declaration, arbitrary, indexed, on, permanent, temporary};
use crate::stage::{Stage, sandboxed};

/// An index handler that fails as the object says.
fn failing(id: &str) -> Declaration {
    on::index(id).does(|call| async move { outcome(&call).await })
}

async fn outcome(call: &Call) -> HandlerResult {
    match call.body().spec()["mode"].as_str() {
        Some("temporary") => temporary("later", 60.0),
        Some("permanent") => permanent("never"),
        Some("arbitrary") => arbitrary("boom"),
        Some("panic") => panic!("oops"),
        Some("slow") => {
            tokio::time::sleep(Duration::from_secs(100)).await;
            indexed(call, json!({"key": "too late"}))
        }
        _ => indexed(call, json!({"key": call.body().spec()["value"]})),
    }
}

async fn set(stage: &Stage, mode: &str, value: u32) {
    let spec = json!({"spec": {"mode": mode, "value": value}});
    stage.merge("obj", spec).await;
    stage.pass(0.1).await;
}

/// Creates an indexed object, makes the handler fail, and then work again.
async fn after(stage: &Stage, mode: &str, delay: f64) -> [serde_json::Value; 2] {
    stage.create_settled("obj", json!({"value": 1})).await;
    assert_eq!(stage.index("id"), json!({"key": [1]}));
    set(stage, mode, 2).await;
    stage.pass(if mode == "slow" { 100.0 } else { 0.0 }).await;
    let failed = stage.index("id");
    stage.pass(delay).await;
    set(stage, "fine", 3).await;
    [failed, stage.index("id")]
}

#[test]
fn arbitrary_errors_are_ignored_by_default() {
    for mode in ["arbitrary", "panic"] {
        sandboxed(async |stage| {
            let _operator = stage.run([failing("id")]).await;
            let kept = json!({"key": [1]});
            assert_eq!(after(stage, mode, 0.0).await, [kept, json!({"key": [3]})]);
        });
    }
}

#[test]
fn temporary_errors_remove_entries_until_an_event_after_the_delay() {
    sandboxed(async |stage| {
        let _operator = stage.run([failing("id")]).await;
        let early = after(stage, "temporary", 30.0).await;
        assert_eq!(early, [json!({}), json!({})], "it is too early");
        assert_eq!(stage.journal.count("id"), 2);
        stage.pass(60.0).await;
        assert_eq!(stage.journal.count("id"), 2, "time alone changes nothing");
        set(stage, "fine", 4).await;
        assert_eq!(stage.index("id"), json!({"key": [4]}));
        let retries: Vec<_> = stage.journal.of("id").iter().map(|e| e.retry).collect();
        assert_eq!(retries, [0, 0, 1]);
        set(stage, "fine", 5).await;
        assert_eq!(
            stage.journal.of("id").last().unwrap().retry,
            0,
            "success is forgotten"
        );
    });
}

#[test]
fn arbitrary_errors_can_be_temporary() {
    sandboxed(async |stage| {
        let handler = failing("id").errors(ErrorsMode::Temporary).backoff(10.0);
        let _operator = stage.run([handler]).await;
        let late = after(stage, "arbitrary", 10.0).await;
        assert_eq!(late, [json!({}), json!({"key": [3]})]);
    });
}

#[test]
fn permanent_errors_are_for_ever() {
    for (mode, errors) in [
        ("permanent", None),
        ("arbitrary", Some(ErrorsMode::Permanent)),
    ] {
        sandboxed(async |stage| {
            let mut handler = failing("id");
            if let Some(errors) = errors {
                handler = handler.errors(errors);
            }
            let operator = stage.run([handler]).await;
            let never = after(stage, mode, 100_000.0).await;
            assert_eq!(never, [json!({}), json!({})]);
            assert_eq!(stage.journal.count("id"), 2);
            stage.create_settled("other", json!({"value": 5})).await;
            assert_eq!(
                stage.index("id"),
                json!({"key": [5]}),
                "others are not affected"
            );
            operator.restart().await;
            stage.settled().await;
            assert_eq!(stage.index("id"), json!({"key": [3, 5]}), "in this process");
        });
    }
}

#[test]
fn attempts_and_time_are_limited() {
    sandboxed(async |stage| {
        let _operator = stage.run([failing("id").retries(1)]).await;
        let never = after(stage, "temporary", 100.0).await;
        assert_eq!(never, [json!({}), json!({})]);
    });
    sandboxed(async |stage| {
        let _operator = stage.run([failing("id").timeout(5.0)]).await;
        let never = after(stage, "slow", 100.0).await;
        assert_eq!(never, [json!({}), json!({})]);
    });
}

#[test]
fn one_that_fails_does_not_concern_the_others() {
    sandboxed(async |stage| {
        let fine = on::index("fine").does(|call| async move { indexed(&call, json!({"x": 1})) });
        let handlers = [failing("id"), fine, on::create("made")];
        let _operator = stage.run(handlers).await;
        stage
            .create_handled("obj", json!({"mode": "permanent"}))
            .await;
        assert_eq!(stage.index("id"), json!({}));
        assert_eq!(stage.index("fine"), json!({"x": [1]}));
        let errors = stage.log.of("obj").into_iter();
        let errors = errors.filter(|record| record.level == tracing::Level::ERROR);
        assert_eq!(errors.count(), 1);
    });
}

#[test]
fn a_filter_that_fails_changes_nothing() {
    sandboxed(async |stage| {
        let handlers = [
            failing("id"),
            failing("broken").when_fails("a broken filter"),
            on::create("made"),
        ];
        let _operator = stage.run(handlers).await;
        stage.create_handled("obj", json!({"value": 1})).await;
        assert_eq!(stage.index("broken"), json!({}));
        assert_eq!(stage.index("id"), json!({"key": [1]}));
    });
}
