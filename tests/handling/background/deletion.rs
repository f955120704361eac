//! Stages of stopping when the object is deleted (§5), with the timelines D and E (§10).

use std::time::Duration;

use kopf_engine::daemons::StopReason;
use serde_json::json;

use super::{Flags, silent, slow};
use crate::front::{done, on, temporary};
use crate::stage::{annotation, everywhere, finalizers, sandboxed};

#[test]
fn those_that_listen_end_at_once() {
    everywhere(async |stage| {
        let flags = Flags::default();
        let _operator = stage
            .run([slow(&flags, 0), on::timer("tick").interval(600.0)])
            .await;
        stage.create("obj", json!({})).await;
        stage
            .until_so("both to run", || stage.journal.all().len() == 2)
            .await;
        stage.settled().await;
        stage.delete_wholly("obj").await;
        let reason = StopReason::RESOURCE_DELETED | StopReason::DONE;
        stage
            .until_so("the daemon to end", || flags.last() == reason)
            .await;
    });
}

#[test]
fn the_object_waits_for_those_that_are_slow() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let operator = stage.run([slow(&flags, 30)]).await;
        stage.create_settled("obj", json!({})).await;
        stage.delete("obj").await;
        stage.pass(29.0).await;
        assert_eq!(flags.last(), StopReason::RESOURCE_DELETED);
        assert!(!finalizers(&stage.get("obj").await).is_empty());
        assert_eq!(operator.inspect().snapshot().sleeping, 1);
        // It is noticed when it ends, and not only when it is looked at.
        stage.pass(2.0).await;
        assert!(stage.get("obj").await.is_null());
        let mut writes = stage.writes().into_iter();
        assert!(writes.any(|call| call.body["status"]["watch"] == "bye"));
    });
}

#[test]
fn one_that_ends_while_another_is_given_a_chance_is_noticed() {
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
        assert!(stage.get("obj").await.is_null(), "both have ended");
    });
}

#[test]
fn stages_of_one_that_does_not_listen() {
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
        // A future ends where it is cancelled.
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
fn without_limits_it_is_looked_at_from_time_to_time() {
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
fn touching_goes_with_stopping_too() {
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
fn deletion_handlers_run_meanwhile() {
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
            "it does not wait for the daemon"
        );
        assert!(!finalizers(&stage.get("obj").await).is_empty());
        stage.pass(15.0).await;
        assert!(stage.get("obj").await.is_null());
    });
}

#[test]
fn the_object_waits_for_deletion_handlers_too() {
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
fn sleeping_ones_end_at_once() {
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
fn a_slow_exit_can_be_made_an_instant_one() {
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
        stage.delete_wholly("obj").await;
        assert!(
            !stage.log.has("obj", "is still exiting"),
            "it was waited for"
        );
    });
}

#[test]
fn an_instant_exit_can_be_not_waited_for() {
    sandboxed(async |stage| {
        let flags = Flags::default();
        let _operator = stage
            .operator([slow(&flags, 0)])
            .settings(|settings| settings.background.instant_exit_zero_time_cycles = None)
            .start()
            .await;
        stage.create_settled("obj", json!({})).await;
        stage.delete_wholly("obj").await;
        assert!(
            stage.log.has("obj", "is still exiting"),
            "it was not waited for"
        );
    });
}
