//! Exit of the operator.

use std::time::Duration;

use kopf_engine::daemons::StopReason;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{Flags, slow};
use crate::front::{done, on};
use crate::stage::{everywhere, finalizers, sandboxed};

#[test]
fn daemons_exit_with_the_operator_and_write_their_results() {
    everywhere(async |stage| {
        let flags = Flags::default();
        let handlers = [slow(&flags, 0), on::timer("tick").interval(600.0)];
        let operator = stage.run(handlers).await;
        stage.create("obj", json!({})).await;
        stage
            .wait_for("both to run", || stage.journal.all().len() == 2)
            .await;
        stage.settled().await;
        let inspect = operator.inspect();
        operator.stop().await;
        assert_eq!(
            flags.last(),
            StopReason::OPERATOR_EXITING | StopReason::DONE
        );
        let now = inspect.snapshot();
        assert_eq!((now.daemons, now.timers), (0, 0));
        let object = stage.get("obj").await;
        assert_eq!(object["status"]["watch"], "bye");
        assert!(
            !finalizers(&object).is_empty(),
            "the finalizer is kept for the next process"
        );
    });
}

#[test]
fn cancellation_stages_apply_while_the_operator_exits() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let watch = slow(&flags, 1000)
            .cancellation_backoff(20.0)
            .cancellation_timeout(30.0);
        let operator = stage.run([watch]).await;
        stage.create_settled("obj", json!({})).await;
        let begun = Instant::now();
        operator.stop().await;
        assert_eq!(begun.elapsed().as_secs(), 20);
        let reason = StopReason::OPERATOR_EXITING
            | StopReason::DAEMON_SIGNALLED
            | StopReason::DAEMON_CANCELLED
            | StopReason::DONE;
        assert_eq!(flags.last(), reason);
    });
}

#[test]
fn daemon_that_exits_within_its_backoff_is_not_aborted() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let operator = stage
            .run([slow(&flags, 15).cancellation_backoff(20.0)])
            .await;
        stage.create_settled("obj", json!({})).await;
        let begun = Instant::now();
        operator.stop().await;
        assert_eq!(begun.elapsed().as_secs(), 15);
        assert_eq!(stage.get("obj").await["status"]["watch"], "bye");
        let reason = flags.last();
        assert!(!reason.contains(StopReason::DAEMON_ABANDONED), "{reason}");
    });
}

#[test]
fn daemons_without_limits_are_aborted() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let operator = stage.run([slow(&flags, 1000)]).await;
        stage.create_settled("obj", json!({})).await;
        let inspect = operator.inspect();
        let begun = Instant::now();
        operator.stop().await;
        assert_eq!(begun.elapsed().as_secs(), 6);
        let reason = StopReason::OPERATOR_EXITING | StopReason::DAEMON_ABANDONED | StopReason::DONE;
        assert_eq!(flags.last(), reason);
        assert_eq!(inspect.snapshot().daemons, 0);
        assert!(stage.log.has(
            "obj",
            "Daemon 'watch' did not exit in time. Leaving it orphaned."
        ));
    });
}

#[test]
fn killed_operator_leaves_no_tasks() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let handlers = [slow(&flags, 0), on::timer("tick").interval(10.0)];
        let operator = stage.run(handlers).await;
        stage.create_settled("obj", json!({})).await;
        let inspect = operator.inspect();
        operator.kill().await;
        sleep(Duration::from_secs(100)).await;
        assert_eq!(
            flags.last(),
            StopReason::OPERATOR_EXITING | StopReason::DONE
        );
        let now = inspect.snapshot();
        assert_eq!((now.daemons, now.timers), (0, 0));
        assert_eq!(stage.journal.count("tick"), 1);
    });
}

#[test]
fn daemons_of_many_objects_exit_concurrently() {
    sandboxed(async |stage| {
        let watch = on::daemon("watch")
            .cancellation_backoff(10.0)
            .does(|call| async move {
                call.stopped.unwrap().wait(None).await;
                sleep(Duration::from_secs(9)).await;
                done()
            });
        let operator = stage.run([watch]).await;
        for number in 0..10 {
            stage.create(&format!("obj{number}"), json!({})).await;
        }
        stage.settled().await;
        let begun = Instant::now();
        operator.stop().await;
        assert_eq!(begun.elapsed().as_secs(), 9);
    });
}
