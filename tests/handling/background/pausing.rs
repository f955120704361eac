//! Daemons and timers of a paused operator: they stop, and restart after the next listing.

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
fn daemons_stop_in_a_pause_and_restart_after_it() {
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
            "it blocks deletion until it exits"
        );
        stage.remove_peer("boss").await;
        stage.pass(15.0).await;
        assert_eq!((count(), stage.journal.count("tick")), ((1, 1), 4));
        assert_eq!(flags.last(), StopReason::NONE);
    });
}

#[test]
fn daemons_that_exit_after_the_pause_are_restarted() {
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
        assert_eq!(flags.reasons(), [reason], "it is still exiting");
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
