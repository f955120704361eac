//! Retries of reconcile handlers, and their records.

use kopf_core::field::FieldPath;
use kopf_engine::invocation::Call;
use serde_json::json;

use super::{NONE, changed, failing, triggers};
use crate::front::{arbitrary, done, on, permanent, temporary};
use crate::owning::create_child;
use crate::stage::{last_handled, own_annotations, progress, sandboxed, strip_annotations};

#[test]
fn retries_are_recorded_until_they_succeed() {
    sandboxed(async |stage| {
        let _operator = stage.run([failing(2, 100.0)]).await;
        stage.create("obj", json!({})).await;
        stage.pass(10.0).await;
        let record = progress(&stage.get("obj").await, "sync");
        assert_eq!(record["retries"], 1);
        assert_eq!(record["message"], "not yet");
        assert_eq!(record["success"], false);
        assert!(record["delayed"].is_string() && record["started"].is_string());
        assert!(record["purpose"].is_null(), "it belongs to no cause");
        stage.pass(100.0).await;
        assert_eq!(progress(&stage.get("obj").await, "sync")["retries"], 2);
        stage.pass(100.0).await;
        let expected = ["created", "created, retried", "created, retried"];
        assert_eq!(triggers(stage), expected);
        assert_eq!(own_annotations(&stage.get("obj").await), NONE);
        stage.pass(1000.0).await;
        assert_eq!(triggers(stage).len(), 3);
    });
}

#[test]
fn retries_continue_after_a_restart_at_their_time() {
    sandboxed(async |stage| {
        let operator = stage.run([failing(1, 100.0)]).await;
        stage.create("obj", json!({})).await;
        stage.pass(10.0).await;
        operator.restart().await;
        stage.pass(50.0).await;
        assert_eq!(triggers(stage), ["created"]);
        stage.pass(50.0).await;
        assert_eq!(triggers(stage), ["created", "resumed, retried"]);
        assert_eq!(stage.journal.of("sync")[1].retry, 1);
        assert_eq!(own_annotations(&stage.get("obj").await), NONE);
    });
}

#[test]
fn changes_end_the_delay_of_a_retry() {
    sandboxed(async |stage| {
        let sync = failing(3, 1000.0).owns("configmaps");
        let _operator = stage.run([sync]).await;
        let owner = stage.create("obj", json!({"n": 0})).await;
        stage.pass(10.0).await;
        changed(stage, "obj", 1).await;
        create_child(stage, "a", &owner).await;
        stage.settled().await;
        stage.pass(1000.0).await;
        let expected = [
            "created",
            "created, updated, retried",
            "created, updated, child, retried",
            "created, updated, child, retried",
        ];
        assert_eq!(triggers(stage), expected);
        assert_eq!(stage.journal.of("sync")[3].retry, 3);
        assert_eq!(own_annotations(&stage.get("obj").await), NONE);
    });
}

#[test]
fn permanent_errors_end_the_retries_until_the_next_trigger() {
    sandboxed(async |stage| {
        let sync = on::reconcile("sync")
            .every(100.0)
            .does(|call: Call| async move {
                match call.body().spec()["n"].as_u64() {
                    Some(0) if call.retry == 0 => temporary("not yet", 1.0),
                    Some(0) => permanent("never"),
                    _ => done(),
                }
            });
        let _operator = stage.run([sync]).await;
        stage.create("obj", json!({"n": 0})).await;
        stage.pass(50.0).await;
        assert_eq!(triggers(stage), ["created", "created, retried"]);
        assert_eq!(own_annotations(&stage.get("obj").await), NONE);
        changed(stage, "obj", 1).await;
        stage.pass(120.0).await;
        assert_eq!(triggers(stage)[2..], ["updated", "period"]);
        assert!(
            stage
                .log
                .has("obj", "Handler 'sync' failed permanently: never")
        );
    });
}

#[test]
fn limits_and_arbitrary_errors_are_those_of_other_handlers() {
    sandboxed(async |stage| {
        let sync = on::reconcile("sync")
            .retries(3)
            .backoff(5.0)
            .does(|_: Call| async move { arbitrary("oops") });
        let _operator = stage.run([sync]).await;
        stage.create("obj", json!({})).await;
        stage.pass(100.0).await;
        assert_eq!(stage.journal.count("sync"), 3);
        assert_eq!(own_annotations(&stage.get("obj").await), NONE);
    });
}

#[test]
fn outcomes_are_posted_only_if_they_are_problems() {
    sandboxed(async |stage| {
        let _operator = stage
            .operator([failing(1, 10.0).every(10.0)])
            .settings(|settings| settings.posting.loggers = true)
            .start()
            .await;
        stage.create("obj", json!({})).await;
        stage.pass(100.0).await;
        let posts = stage.posts();
        let messages: Vec<_> = posts
            .iter()
            .filter_map(|post| post["message"].as_str())
            .collect();
        assert!(
            messages
                .iter()
                .any(|text| text.contains("failed temporarily")),
            "{messages:?}"
        );
        assert!(
            !messages.iter().any(|text| text.contains("succeeded")),
            "{messages:?}"
        );
        assert!(
            stage
                .log
                .has("obj", "Reconciliation is in progress: created.")
        );
    });
}

/// As the original, other operators read the records of their own handlers only.
#[test]
fn records_are_ignored_by_operators_without_the_handler() {
    sandboxed(async |stage| {
        let operator = stage.run([failing(2, 100.0)]).await;
        stage.create("obj", json!({})).await;
        stage.pass(10.0).await;
        operator.stop().await;
        let record = progress(&stage.get("obj").await, "sync");
        let other = stage.run([on::create("make"), on::update("change")]).await;
        stage.pass(10.0).await;
        let object = stage.get("obj").await;
        assert_eq!(stage.journal.only("make").retry, 0);
        assert!(last_handled(&object).is_object());
        assert_eq!(progress(&object, "sync"), record);
        other.stop().await;
        operator.start().await;
        stage.pass(200.0).await;
        assert_eq!(
            triggers(stage)[1..],
            ["resumed, retried", "resumed, retried"]
        );
        assert_eq!(
            own_annotations(&stage.get("obj").await),
            ["last-handled-configuration"]
        );
    });
}

/// Another client, or a webhook, can remove the records.
#[test]
fn delays_of_retries_do_not_depend_on_records() {
    sandboxed(async |stage| {
        let setup = stage.operator([failing(3, 100.0)]);
        let _operator = setup.altering(strip_annotations).start().await;
        stage.create("obj", json!({})).await;
        stage.pass(250.0).await;
        let calls = stage.journal.of("sync").into_iter();
        let retries: Vec<u32> = calls.map(|call| call.retry).collect();
        assert_eq!(retries, [0, 1, 2]);
        stage.pass(1000.0).await;
        assert_eq!(triggers(stage).len(), 4);
    });
}

#[test]
fn changes_that_are_too_large_end_the_retries() {
    sandboxed(async |stage| {
        let sync = on::reconcile("sync").does(|call: Call| async move {
            let path = FieldPath::parse("status.big");
            let big = json!("x".repeat(2_000_000));
            call.patch.with(|patch| patch.set(&path, big));
            temporary("not yet", 100.0)
        });
        let _operator = stage.run([sync]).await;
        stage.create("obj", json!({"n": 0})).await;
        stage.pass(1000.0).await;
        assert_eq!(triggers(stage), ["created"]);
        let failed = "Handler 'sync' failed permanently: ";
        assert!(stage.log.has("obj", failed));
        assert_eq!(own_annotations(&stage.get("obj").await), NONE);
        changed(stage, "obj", 1).await;
        stage.pass(1000.0).await;
        assert_eq!(triggers(stage), ["created", "updated"]);
        assert_eq!(stage.journal.of("sync")[1].retry, 0);
    });
}
