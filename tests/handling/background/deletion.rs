//! Stages of stopping after the deletion of the object, with the timelines D and E.

use std::time::Duration;

use kopf_engine::daemons::StopReason;
use serde_json::json;

use super::{Flags, silent, slow};
use crate::front::{done, on, temporary};
use crate::stage::{annotation, everywhere, finalizers, sandboxed};

#[test]
fn daemons_that_check_the_flag_exit_immediately() {
    everywhere(async |stage| {
        let flags = Flags::default();
        let _operator = stage
            .run([slow(&flags, 0), on::timer("tick").interval(600.0)])
            .await;
        stage.create("obj", json!({})).await;
        stage
            .wait_for("both to run", || stage.journal.all().len() == 2)
            .await;
        stage.settled().await;
        stage.delete_and_wait("obj").await;
        let reason = StopReason::RESOURCE_DELETED | StopReason::DONE;
        stage
            .wait_for("the daemon to end", || flags.last() == reason)
            .await;
    });
}

#[test]
fn deletion_waits_for_slow_daemons() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let operator = stage.run([slow(&flags, 30)]).await;
        stage.create_settled("obj", json!({})).await;
        stage.delete("obj").await;
        stage.pass(29.0).await;
        assert_eq!(flags.last(), StopReason::RESOURCE_DELETED);
        assert!(!finalizers(&stage.get("obj").await).is_empty());
        assert_eq!(operator.inspect().snapshot().sleeping, 1);
        // The exit is handled immediately, without waiting for the next poll.
        stage.pass(2.0).await;
        assert!(stage.get("obj").await.is_null());
        let mut writes = stage.writes().into_iter();
        assert!(writes.any(|call| call.body["status"]["watch"] == "bye"));
    });
}

#[test]
fn exit_during_the_wait_for_another_daemon_is_handled() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let handlers = [silent("watch", &flags, 7), silent("other", &flags, 8)];
        let _operator = stage
            .operator(handlers)
            .settings(|settings| {
                settings.background.instant_exit_timeout = Some(Duration::from_secs(5));
            })
            .start()
            .await;
        stage.create_settled("obj", json!({})).await;
        stage.delete("obj").await;
        stage.pass(10.0).await;
        assert!(stage.get("obj").await.is_null(), "both daemons exited");
    });
}

#[test]
fn daemon_that_ignores_the_flag_is_cancelled_in_stages() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let watch = slow(&flags, 1000)
            .cancellation_backoff(3.0)
            .cancellation_timeout(5.0);
        let operator = stage.run([watch]).await;
        stage.create_settled("obj", json!({})).await;
        stage.delete("obj").await;
        stage.pass(2.9).await;
        let reason = StopReason::RESOURCE_DELETED | StopReason::DAEMON_SIGNALLED;
        assert_eq!(flags.last(), reason);
        assert!(
            stage
                .log
                .has("obj", "Daemon 'watch' is signalled to exit gracefully.")
        );
        assert!(!finalizers(&stage.get("obj").await).is_empty());
        assert_eq!(operator.inspect().snapshot().daemons, 1);
        // A cancelled future ends at its await.
        stage.pass(0.2).await;
        let reason = reason | StopReason::DAEMON_CANCELLED | StopReason::DONE;
        assert_eq!(flags.last(), reason);
        assert!(
            stage
                .log
                .has("obj", "Daemon 'watch' is signalled to exit by force.")
        );
        assert!(
            stage
                .log
                .has("obj", "Daemon 'watch' is cancelled. Will escalate.")
        );
        assert!(stage.get("obj").await.is_null());
        assert_eq!(operator.inspect().snapshot().daemons, 0);
    });
}

#[test]
fn cancellation_without_a_backoff_is_immediate() {
    sandboxed(async |stage| {
        let watch = on::daemon("watch").cancellation_timeout(5.0).ignores_all();
        let _operator = stage.run([watch]).await;
        stage.create_settled("obj", json!({})).await;
        stage.delete("obj").await;
        stage.settled().await;
        assert!(stage.get("obj").await.is_null());
    });
}

#[test]
fn daemons_without_limits_are_polled() {
    sandboxed(async |stage| {
        let (own, default) = (Flags::default(), Flags::default());
        let handlers = [
            slow(&own, 100).cancellation_polling(7.0),
            slow(&default, 200).also(on::daemon("other")),
        ];
        let _operator = stage
            .operator(handlers)
            .settings(|settings| {
                settings.background.cancellation_polling = Duration::from_secs(25);
            })
            .start()
            .await;
        stage.create_settled("obj", json!({})).await;
        stage.delete("obj").await;
        stage.pass(50.5).await;
        let count = |message| stage.log.count("obj", message);
        let own = "Daemon 'watch' is still exiting. The next check is in 7 seconds.";
        assert_eq!(count(own), 8, "at 0, 7, 14, …, 49");
        assert!(count("Daemon 'other' is still exiting. The next check is in 25 seconds.") > 0);
        stage.pass(100.0).await;
        assert!(!stage.get("obj").await.is_null());
        stage.pass(100.0).await;
        assert!(stage.get("obj").await.is_null());
    });
}

#[test]
fn objects_are_touched_while_daemons_exit() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let watch = slow(&flags, 100).cancellation_polling(10.0);
        let _operator = stage
            .operator([watch])
            .settings(|settings| settings.persistence.touching = true)
            .start()
            .await;
        stage.create_settled("obj", json!({})).await;
        stage.delete("obj").await;
        stage.pass(25.0).await;
        let object = stage.get("obj").await;
        assert!(!annotation(&object, "kopf.zalando.org/touch-dummy").is_empty());
        let touches = stage.writes().into_iter();
        let touches = touches.filter(|call| call.body["metadata"]["annotations"].is_object());
        assert_eq!(touches.count(), 2, "at 10, 20");
        stage.pass(80.0).await;
        assert!(stage.get("obj").await.is_null());
    });
}

#[test]
fn deletion_handlers_run_while_daemons_exit() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let unmake = on::delete("unmake").does(|call| async move {
            if call.retry == 0 {
                return temporary("later", 10.0);
            }
            done()
        });
        let _operator = stage.run([slow(&flags, 30), unmake]).await;
        stage.create_settled("obj", json!({})).await;
        stage.delete("obj").await;
        stage.pass(20.0).await;
        assert_eq!(
            stage.journal.count("unmake"),
            2,
            "the handler does not wait for the daemon"
        );
        assert!(!finalizers(&stage.get("obj").await).is_empty());
        stage.pass(15.0).await;
        assert!(stage.get("obj").await.is_null());
    });
}

#[test]
fn deletion_waits_for_handlers_after_daemons_exit() {
    sandboxed(async |stage| {
        let unmake = on::delete("unmake").does(|call| async move {
            if call.retry == 0 {
                return temporary("later", 10.0);
            }
            done()
        });
        let _operator = stage.run([on::daemon("watch").waits(), unmake]).await;
        stage.create_settled("obj", json!({})).await;
        stage.delete("obj").await;
        stage.pass(5.0).await;
        assert!(!finalizers(&stage.get("obj").await).is_empty());
        stage.pass(6.0).await;
        assert!(stage.get("obj").await.is_null());
    });
}

#[test]
fn sleeping_daemons_and_timers_exit_immediately() {
    sandboxed(async |stage| {
        let handlers = [
            on::daemon("postponed").initial_delay(1000.0),
            on::daemon("failed").does(|_| async { temporary("later", 1000.0) }),
            on::timer("tick").interval(1000.0),
            on::timer("idle").idle(1000.0),
            on::timer("rested").idle(1.0),
        ];
        let operator = stage.run(handlers).await;
        stage.create("obj", json!({})).await;
        stage.pass(5.0).await;
        let now = operator.inspect().snapshot();
        assert_eq!((now.daemons, now.timers), (2, 3));
        stage.delete("obj").await;
        stage.settled().await;
        assert!(stage.get("obj").await.is_null());
        let now = operator.inspect().snapshot();
        assert_eq!((now.daemons, now.timers), (0, 0));
    });
}

#[test]
fn instant_exit_timeout_waits_for_slow_daemons() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let _operator = stage
            .operator([slow(&flags, 2)])
            .settings(|settings| {
                settings.background.instant_exit_timeout = Some(Duration::from_secs(3));
            })
            .start()
            .await;
        stage.create_settled("obj", json!({})).await;
        stage.delete_and_wait("obj").await;
        assert!(
            !stage.log.has("obj", "is still exiting"),
            "the cycle waited for the daemon"
        );
    });
}

#[test]
fn instant_exit_wait_can_be_disabled() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let _operator = stage
            .operator([slow(&flags, 0)])
            .settings(|settings| settings.background.instant_exit_zero_time_cycles = None)
            .start()
            .await;
        stage.create_settled("obj", json!({})).await;
        stage.delete_and_wait("obj").await;
        assert!(
            stage.log.has("obj", "is still exiting"),
            "the cycle did not wait for the daemon"
        );
    });
}
