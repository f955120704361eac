//! Waiting for the echo of own writes.

use std::time::Duration;

use kopf_core::cause::EventType;
use kopf_sandbox::fault::{Fault, Verb};
use kopf_testing::recording::Moment;
use serde_json::json;

use crate::front::{done, gives, on, temporary};
use crate::stage::{Stage, everywhere, finalizers, is_handled, sandboxed};

/// Delays all later events by this many seconds.
fn delay_events(stage: &Stage, seconds: u64) {
    let faults = stage.faults();
    faults.inject(Fault::delay_events(Duration::from_secs(seconds)).verb(Verb::Watch));
}

#[test]
fn late_echo_does_not_repeat_handlers() {
    sandboxed(async |stage| {
        let make = on::create("make").does(|_| async { gives(json!(1)) });
        let _operator = stage.run([on::create("first"), make]).await;
        delay_events(stage, 3);
        stage.create("obj", json!({})).await;
        stage.pass(60.0).await;
        assert_eq!(stage.journal.ids(), ["first", "make"]);
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn foreign_change_before_the_echo_does_not_repeat_handlers() {
    everywhere(async |stage| {
        let _operator = stage.run([on::create("make"), on::update("updated")]).await;
        let breakpoint = stage.breakpoint(1, Moment::After);
        stage.create("obj", json!({"field": 1})).await;
        stage.within("the write", breakpoint.reached()).await;
        stage
            .merge("obj", json!({"metadata": {"labels": {"a": "b"}}}))
            .await;
        breakpoint.release();
        stage.until_handled("obj").await;
        stage
            .wait_for("the label to be handled", || {
                stage.journal.count("updated") > 0
            })
            .await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["make", "updated"]);
    });
}

#[test]
fn older_version_after_an_own_write_is_not_handled() {
    sandboxed(async |stage| {
        // A foreign change arrives while the handler runs.
        let make = on::create("make").does(|call| async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            gives(json!(call.body().spec()["field"]))
        });
        let _operator = stage.run([make, on::update("updated")]).await;
        stage.create("obj", json!({"field": 1})).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        delay_events(stage, 2);
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.pass(60.0).await;
        assert_eq!(stage.journal.ids(), ["make", "updated"]);
        let diff = stage.journal.only("updated").diff;
        assert_eq!(diff, json!([["change", ["spec", "field"], 1, 2]]));
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn foreign_changes_during_a_handler_are_handled_though_older_than_the_own_write() {
    for change in [
        json!({"metadata": {"labels": {"a": "b"}}}),
        json!({"metadata": {"annotations": {"a": "b"}}}),
        json!({"spec": {"field": 2}}),
    ] {
        sandboxed(async |stage| {
            let make = on::create("make").does(|_| async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                gives(json!(1))
            });
            let _operator = stage.run([make, on::update("updated")]).await;
            stage.create("obj", json!({"field": 1})).await;
            tokio::time::sleep(Duration::from_millis(500)).await;
            stage.merge("obj", change.clone()).await;
            stage.pass(60.0).await;
            assert_eq!(stage.journal.ids(), ["make", "updated"], "{change}");
        });
    }
}

#[test]
fn own_write_can_make_the_finalizer_required() {
    sandboxed(async |stage| {
        let make = on::create("make").does(|_| async { gives(json!(1)) });
        let unmake = on::delete("unmake").when(|cause| !cause.body.status()["make"].is_null());
        let _operator = stage.run([make, unmake]).await;
        stage.create_settled("obj", json!({})).await;
        assert_eq!(finalizers(&stage.get("obj").await).len(), 1);
    });
}

#[test]
fn foreign_change_before_the_echo_is_handled() {
    sandboxed(async |stage| {
        let make = on::create("make").does(|_| async { gives(json!(1)) });
        let _operator = stage.run([make, on::update("updated")]).await;
        delay_events(stage, 2);
        stage.create_handled("obj", json!({"field": 1})).await;
        // The echo has not arrived yet.
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.pass(60.0).await;
        assert_eq!(stage.journal.ids(), ["make", "updated"]);
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn response_replaces_a_lost_echo_after_the_timeout() {
    sandboxed(async |stage| {
        let make = on::create("make").does(|call| async move {
            if call.retry < 2 {
                return temporary("not yet", 1.0);
            }
            done()
        });
        let _operator = stage.run([make]).await;
        let breakpoint = stage.breakpoint(1, Moment::Before);
        stage.create("obj", json!({})).await;
        breakpoint.reached().await;
        stage.faults().inject(Fault::drop_events().name("obj"));
        breakpoint.release();
        stage.pass(60.0).await;
        let retries: Vec<_> = stage.journal.of("make").iter().map(|e| e.retry).collect();
        assert_eq!(retries, [0, 1, 2]);
        assert!(is_handled(&stage.get("obj").await));
        let started: Vec<_> = stage
            .journal
            .of("make")
            .iter()
            .map(|e| e.runtime.as_secs())
            .collect();
        assert!(
            started[1] >= 5,
            "not before the consistency timeout: {started:?}"
        );
    });
}

#[test]
fn waiting_for_echoes_can_be_disabled() {
    sandboxed(async |stage| {
        let make = on::create("make").does(|call| async move {
            if call.retry < 1 {
                return temporary("not yet", 0.0);
            }
            done()
        });
        let _operator = stage
            .operator([make])
            .settings(|settings| settings.persistence.consistency_timeout = Duration::ZERO)
            .start()
            .await;
        stage.create_settled("obj", json!({})).await;
        assert_eq!(stage.journal.count("make"), 2);
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn event_handlers_do_not_wait_for_the_echo() {
    sandboxed(async |stage| {
        let make = on::create("make").does(|_| async { gives(json!(1)) });
        let _operator = stage
            .run([on::event("spy"), make, on::update("updated")])
            .await;
        let breakpoint = stage.breakpoint(1, Moment::After);
        stage.create("obj", json!({"field": 1})).await;
        breakpoint.reached().await;
        // Later foreign changes arrive immediately, own writes much later.
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        breakpoint.release();
        stage.settled().await;
        let seen = stage.journal.of("spy");
        assert!(seen.iter().any(|entry| entry.body["spec"]["field"] == 2));
        assert_eq!(seen[0].event, Some(EventType::Added));
        assert_eq!(stage.journal.count("make"), 1);
        assert_eq!(stage.journal.count("updated"), 1);
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn released_object_is_not_handled_again() {
    sandboxed(async |stage| {
        let _operator = stage.run([on::create("make"), on::delete("unmake")]).await;
        stage.create_settled("obj", json!({})).await;
        delay_events(stage, 2);
        stage.delete("obj").await;
        stage.pass(60.0).await;
        assert!(stage.get("obj").await.is_null());
        assert_eq!(stage.journal.ids(), ["make", "unmake"]);
        assert!(stage.log.has("obj", "Deleted, really deleted"));
    });
}

#[test]
fn versions_older_than_an_overdue_write_are_not_handled_by_a_later_driver() {
    sandboxed(async |stage| {
        let make = on::create("make").does(|_| async {
            tokio::time::sleep(Duration::from_secs(2)).await;
            done()
        });
        let _operator = stage.run([make, on::update("updated")]).await;
        stage.create("obj", json!({"field": 1})).await;
        stage.sleep(1.0).await;
        delay_events(stage, 30);
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        // The wait for the own write times out, and the driver of the object ends.
        stage.pass(25.0).await;
        assert_eq!(stage.journal.ids(), ["make"]);
        // The change of the field arrives first, in a version without a diff-base.
        stage.pass(60.0).await;
        assert_eq!(stage.journal.ids(), ["make", "updated"]);
        assert!(is_handled(&stage.get("obj").await));
    });
}
