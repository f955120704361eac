//! Daemons and timers of a paused operator (§5.5): stopped, and started again by the listing after it.

use kopf_engine::daemons::StopReason;
use serde_json::json;

use super::{Flags, silent, slow};
use crate::front::on;
use crate::stage::{Stage, finalizers, sandboxed};

const FOREVER: u64 = 1_000_000;

async fn paused(stage: &Stage) {
    stage.put_peer("boss", 100, FOREVER, 0).await;
}

#[test]
fn they_are_stopped_and_come_back() {
    sandboxed(async |stage| {
        stage.define_peerings().await;
        stage.create_peering("default").await;
        let flags = Flags::default();
        let handlers = [slow(&flags, 0), on::timer("tick").interval(10.0)];
        let operator = stage.operator(handlers).peer("me", 0).start().await;
        let count = || {
            let now = operator.inspect().snapshot();
            (now.daemons, now.timers)
        };
        stage.create("obj", json!({})).await;
        stage.pass(15.0).await;
        assert_eq!((count(), stage.journal.count("tick")), ((1, 1), 2));
        paused(stage).await;
        stage.pass(100.0).await;
        assert_eq!((count(), stage.journal.count("tick")), ((0, 0), 2));
        let reason = StopReason::OPERATOR_PAUSING | StopReason::DONE;
        assert_eq!(flags.last(), reason);
        assert!(
            !finalizers(&stage.get("obj").await).is_empty(),
            "it is still to be stopped before the object goes"
        );
        stage.remove_peer("boss").await;
        stage.pass(15.0).await;
        assert_eq!((count(), stage.journal.count("tick")), ((1, 1), 4));
        assert_eq!(flags.last(), StopReason::NONE);
    });
}

#[test]
fn those_that_end_slower_than_the_pause_come_back_too() {
    sandboxed(async |stage| {
        stage.define_peerings().await;
        stage.create_peering("default").await;
        let flags = Flags::default();
        let watch = silent("watch", &flags, 60).cancellation_backoff(100.0);
        let operator = stage.operator([watch]).peer("me", 0).start().await;
        stage.create_settled("obj", json!({})).await;
        paused(stage).await;
        stage.pass(5.0).await;
        stage.remove_peer("boss").await;
        stage.pass(5.0).await;
        let reason = StopReason::OPERATOR_PAUSING | StopReason::DAEMON_SIGNALLED;
        assert_eq!(flags.reasons(), [reason], "it has not ended yet");
        stage.pass(60.0).await;
        assert_eq!(operator.inspect().snapshot().daemons, 1);
        assert_eq!(flags.reasons().len(), 2);
        assert_eq!(flags.last(), StopReason::NONE);
    });
}

#[test]
fn objects_deleted_in_a_pause_are_released_after_it() {
    sandboxed(async |stage| {
        stage.define_peerings().await;
        stage.create_peering("default").await;
        let flags = Flags::default();
        let operator = stage
            .operator([slow(&flags, 0)])
            .peer("me", 0)
            .start()
            .await;
        stage.create_settled("obj", json!({})).await;
        paused(stage).await;
        stage.delete("obj").await;
        stage.pass(100.0).await;
        assert!(!stage.get("obj").await.is_null());
        stage.remove_peer("boss").await;
        stage.settled().await;
        assert!(stage.get("obj").await.is_null());
        assert_eq!(flags.reasons().len(), 1, "it was not started again");
        assert_eq!(operator.inspect().snapshot().objects, 0);
    });
}
