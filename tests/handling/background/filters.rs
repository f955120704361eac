//! Daemons and timers start when their filters match and stop when they no longer match. This
//! differs from the timeline F of the original, in which a daemon that matches again while it
//! exits is restarted by the next change only.

use std::time::Duration;

use kopf_core::filter::{MetaCriterion, ValueCriterion};
use kopf_engine::daemons::StopReason;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{Flags, times};
use crate::front::{Declaration, done, on};
use crate::stage::{everywhere, finalizers, sandboxed};

fn going(handler: Declaration) -> Declaration {
    handler.label("go", MetaCriterion::Literal("yes".into()))
}

fn label(value: Value) -> Value {
    json!({"metadata": {"labels": {"go": value}}})
}

/// Returns a daemon that exits this many seconds after it is stopped.
fn slow(flags: &Flags, seconds: f64) -> Declaration {
    let flags = flags.clone();
    going(on::daemon("watch")).does(move |call| {
        let stopped = flags.keep(&call);
        async move {
            stopped.wait(None).await;
            sleep(Duration::from_secs_f64(seconds)).await;
            done()
        }
    })
}

#[test]
fn daemons_start_and_stop_with_their_filters() {
    everywhere(async |stage| {
        let flags = Flags::default();
        let operator = stage.run([slow(&flags, 0.0)]).await;
        let count = || operator.inspect().snapshot().daemons;
        stage.create_settled("obj", json!({})).await;
        assert_eq!((count(), stage.writes().len()), (0, 0));
        stage.merge("obj", label(json!("yes"))).await;
        stage
            .wait_for("the daemon to run", || flags.reasons().len() == 1)
            .await;
        stage
            .until("obj", "blocked", |object| !finalizers(object).is_empty())
            .await;
        stage.settled().await;
        stage.merge("obj", label(json!("no"))).await;
        stage
            .until("obj", "free", |object| finalizers(object).is_empty())
            .await;
        stage.wait_for("the daemon to end", || count() == 0).await;
        assert_eq!(
            flags.last(),
            StopReason::FILTERS_MISMATCH | StopReason::DONE
        );
        stage.settled().await;
        stage.merge("obj", label(json!("yes"))).await;
        stage
            .wait_for("the daemon to run again", || flags.reasons().len() == 2)
            .await;
        assert_eq!(flags.last(), StopReason::NONE);
    });
}

#[test]
fn all_filters_must_match() {
    sandboxed(async |stage| {
        let handlers = [
            on::daemon("field").field("spec.on").waits(),
            on::daemon("value")
                .field("spec.on")
                .value(ValueCriterion::Literal(json!(1)))
                .waits(),
            on::daemon("annotation")
                .annotation("a", MetaCriterion::Absent)
                .waits(),
            on::timer("when")
                .interval(1.0)
                .when(|cause| cause.body.spec()["on"] == 2),
        ];
        let operator = stage.run(handlers).await;
        let count = || {
            let now = operator.inspect().snapshot();
            (now.daemons, now.timers)
        };
        stage.create_settled("obj", json!({})).await;
        assert_eq!(count(), (1, 0));
        stage.merge("obj", json!({"spec": {"on": 1}})).await;
        stage.settled().await;
        assert_eq!(count(), (3, 0));
        stage.merge("obj", json!({"spec": {"on": 2}})).await;
        stage.settled().await;
        assert_eq!(count(), (2, 1));
        stage
            .merge("obj", json!({"metadata": {"annotations": {"a": "b"}}}))
            .await;
        stage.settled().await;
        assert_eq!(count(), (1, 1));
        assert_eq!(
            stage.journal.of("field/spec.on").len(),
            1,
            "it was not restarted"
        );
    });
}

#[test]
fn daemon_that_matches_again_while_it_exits_is_restarted() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let operator = stage.run([slow(&flags, 10.0)]).await;
        let since = stage.now();
        stage.create_with("obj", label(json!("yes"))).await;
        stage.pass(1.0).await;
        stage.merge("obj", label(json!("no"))).await;
        stage.pass(1.0).await;
        let object = stage.get("obj").await;
        assert!(
            finalizers(&object).is_empty(),
            "the finalizer does not wait for the daemon"
        );
        stage.merge("obj", label(json!("yes"))).await;
        stage.pass(5.0).await;
        assert_eq!(flags.reasons(), [StopReason::FILTERS_MISMATCH]);
        stage.pass(5.0).await;
        assert_eq!(operator.inspect().snapshot().daemons, 1);
        assert_eq!(flags.last(), StopReason::NONE);
        assert_eq!(times(stage, since, "watch"), [0, 11]);
    });
}

#[test]
fn stages_are_equal_to_those_of_deletion() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let watch = slow(&flags, 100.0)
            .cancellation_backoff(3.0)
            .cancellation_timeout(5.0);
        let operator = stage.run([watch]).await;
        stage.create_with("obj", label(json!("yes"))).await;
        stage.settled().await;
        stage.merge("obj", label(json!("no"))).await;
        stage.pass(2.0).await;
        let reason = StopReason::FILTERS_MISMATCH | StopReason::DAEMON_SIGNALLED;
        assert_eq!(flags.last(), reason);
        stage.pass(2.0).await;
        let reason = reason | StopReason::DAEMON_CANCELLED | StopReason::DONE;
        assert_eq!(flags.last(), reason);
        assert_eq!(operator.inspect().snapshot().daemons, 0);
    });
}

#[test]
fn stop_reasons_accumulate() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let _operator = stage
            .run([slow(&flags, 30.0), on::daemon("other").waits()])
            .await;
        stage.create_with("obj", label(json!("yes"))).await;
        stage.settled().await;
        stage.merge("obj", label(json!("no"))).await;
        stage.settled().await;
        stage.delete("obj").await;
        stage.settled().await;
        let reason = StopReason::FILTERS_MISMATCH | StopReason::RESOURCE_DELETED;
        assert_eq!(flags.last(), reason);
        assert!(
            !stage.get("obj").await.is_null(),
            "deletion waits for the daemon"
        );
        stage.pass(31.0).await;
        assert!(stage.get("obj").await.is_null());
    });
}

#[test]
fn failed_filter_does_not_affect_other_handlers() {
    sandboxed(async |stage| {
        let handlers = [
            on::daemon("unclear").waits().when_fails("no idea"),
            on::daemon("watch").waits(),
            on::timer("tick").interval(10.0),
            on::create("make"),
        ];
        let operator = stage.run(handlers).await;
        stage.create_handled("obj", json!({})).await;
        sleep(Duration::from_secs(25)).await;
        assert_eq!(operator.inspect().snapshot().daemons, 1);
        assert_eq!(stage.journal.count("tick"), 3);
        assert_eq!(stage.journal.count("unclear"), 0);
        assert!(stage.log.has("obj", "no idea"), "the error is logged");
        stage.delete("obj").await;
        sleep(Duration::from_secs(5)).await;
        assert!(stage.get("obj").await.is_null());
    });
}

#[test]
fn failed_filter_is_evaluated_again() {
    sandboxed(async |stage| {
        let operator = stage
            .run([on::daemon("watch").waits().when_fails("no idea")])
            .await;
        stage.create("obj", json!({})).await;
        sleep(Duration::from_secs(5)).await;
        assert_eq!(operator.inspect().snapshot().daemons, 0);
        assert!(stage.log.has("obj", "no idea"));
    });
}
