//! Lifecycle of daemons: initial delay, attempts, errors, exit.

use std::time::Duration;

use kopf_core::handler::ErrorsMode;
use kopf_testing::recording::Moment;
use serde_json::json;

use super::times;
use crate::front::{arbitrary, done, gives, on, permanent, temporary};
use crate::stage::{everywhere, finalizers, sandboxed};

#[test]
fn daemon_is_called_once_and_its_result_is_stored() {
    everywhere(async |stage| {
        let watch = on::daemon("watch").does(|call| async move {
            let stopped = call.stopped.clone().unwrap();
            stopped.wait(Some(Duration::from_millis(10))).await;
            gives(json!({"seen": call.body().spec()["field"]}))
        });
        let _operator = stage.run([watch]).await;
        stage.create("obj", json!({"field": "value"})).await;
        let object = stage
            .until("obj", "reported on", |object| {
                object["status"]["watch"]["seen"] == "value" && finalizers(object).is_empty()
            })
            .await;
        assert_eq!(object["status"]["watch"]["seen"], "value");
        stage.journal.only("watch");
    });
}

#[test]
fn result_that_arrives_before_its_response_is_written_once() {
    everywhere(async |stage| {
        let watch = on::daemon("watch").does(|_| async { gives(json!("over")) });
        let _operator = stage.run([watch]).await;
        // The response to the write arrives after its echo on the watch stream.
        let breakpoint = stage.breakpoint(2, Moment::After);
        stage.create("obj", json!({})).await;
        stage.within("the result", breakpoint.reached()).await;
        stage
            .until("obj", "free", |object| finalizers(object).is_empty())
            .await;
        breakpoint.release();
        stage.settled().await;
        assert_eq!(stage.get("obj").await["status"]["watch"], "over");
        let message = "Daemon 'watch' has exited on its own and will not be retried or restarted.";
        assert_eq!(stage.log.count("obj", message), 1);
        stage.journal.only("watch");
    });
}

#[test]
fn exited_daemon_is_not_restarted() {
    sandboxed(async |stage| {
        let operator = stage.run([on::daemon("watch")]).await;
        stage.create_settled("obj", json!({})).await;
        assert_eq!(operator.inspect().snapshot().daemons, 0);
        let message = "Daemon 'watch' has exited on its own and will not be retried or restarted.";
        assert_eq!(stage.log.count("obj", message), 1);
        stage.merge("obj", json!({"spec": {"field": "x"}})).await;
        stage.settled().await;
        assert!(
            finalizers(&stage.get("obj").await).is_empty(),
            "the finalizer is removed"
        );
        stage.merge("obj", json!({"spec": {"field": "y"}})).await;
        stage.relist();
        stage.pass(60.0).await;
        stage.journal.only("watch");
        stage.delete_and_wait("obj").await;
        // A new object of the same name gets a new daemon.
        stage.create_settled("obj", json!({})).await;
        assert_eq!(stage.journal.count("watch"), 2);
    });
}

#[test]
fn finalizer_stays_while_another_daemon_runs() {
    sandboxed(async |stage| {
        let handlers = [on::daemon("over"), on::daemon("watch").waits()];
        let _operator = stage.run(handlers).await;
        stage.create("obj", json!({})).await;
        stage.merge("obj", json!({"spec": {"field": "x"}})).await;
        stage.settled().await;
        assert!(!finalizers(&stage.get("obj").await).is_empty());
    });
}

#[test]
fn initial_delay_postpones_the_first_call() {
    sandboxed(async |stage| {
        let fixed = on::daemon("fixed").initial_delay(30.0);
        let by_spec = on::daemon("by-spec")
            .initial_delay_by(|cause| Ok(cause.body.spec()["delay"].as_f64().unwrap_or(0.0)));
        let _operator = stage.run([fixed, by_spec]).await;
        let since = stage.now();
        stage.create("obj", json!({"delay": 50})).await;
        stage.pass(60.0).await;
        assert_eq!(times(stage, since, "fixed"), [30]);
        assert_eq!(times(stage, since, "by-spec"), [50]);
    });
}

#[test]
fn failed_delay_function_is_retried() {
    sandboxed(async |stage| {
        let watch = on::daemon("watch").backoff(7.0).initial_delay_by(|cause| {
            match cause.body.spec()["delay"].as_f64() {
                Some(delay) => Ok(delay),
                None => Err("no delay"),
            }
        });
        let _operator = stage.run([watch]).await;
        let since = stage.now();
        stage.create("obj", json!({})).await;
        stage.pass(5.0).await;
        stage.merge("obj", json!({"spec": {"delay": 3}})).await;
        stage.pass(60.0).await;
        assert_eq!(times(stage, since, "watch"), [10]);
        assert!(
            stage
                .log
                .has("obj", "will try again in 7 seconds: no delay")
        );
    });
}

#[test]
fn temporary_errors_restart_the_daemon() {
    sandboxed(async |stage| {
        let watch = on::daemon("watch").does(|call| async move {
            match call.retry {
                0 => temporary("restart", 10.0),
                1 => Err(kopf_core::outcome::HandlerError::temporary("at once", None)),
                2 => arbitrary("boom"),
                _ => done(),
            }
        });
        let _operator = stage.run([watch.backoff(20.0)]).await;
        let since = stage.now();
        stage.create("obj", json!({})).await;
        stage.pass(100.0).await;
        assert_eq!(times(stage, since, "watch"), [0, 10, 10, 30]);
        let retries: Vec<u32> = stage
            .journal
            .all()
            .iter()
            .map(|entry| entry.retry)
            .collect();
        assert_eq!(retries, [0, 1, 2, 3]);
        let started: Vec<_> = stage
            .journal
            .all()
            .iter()
            .map(|entry| entry.started)
            .collect();
        assert!(started.iter().all(|time| *time == started[0]));
        assert!(
            stage
                .log
                .has("obj", "Daemon 'watch' failed temporarily: restart")
        );
    });
}

#[test]
fn changes_of_the_object_do_not_shorten_the_delay() {
    sandboxed(async |stage| {
        let watch = on::daemon("watch").does(|_| async { temporary("later", 10.0) });
        let _operator = stage.run([watch]).await;
        let since = stage.now();
        stage.create("obj", json!({})).await;
        stage.pass(5.0).await;
        stage.merge("obj", json!({"spec": {"field": "x"}})).await;
        stage.pass(17.0).await;
        assert_eq!(times(stage, since, "watch"), [0, 10, 20]);
    });
}

#[test]
fn final_errors_end_the_daemon() {
    sandboxed(async |stage| {
        let handlers = [
            on::daemon("permanent").does(|_| async { permanent("bye") }),
            on::daemon("mode")
                .errors(ErrorsMode::Permanent)
                .does(|_| async { arbitrary("once") }),
            on::daemon("ignored")
                .errors(ErrorsMode::Ignored)
                .does(|_| async { arbitrary("whatever") }),
            on::daemon("retries")
                .retries(3)
                .backoff(1.0)
                .does(|_| async { arbitrary("again") }),
            on::daemon("panics")
                .retries(2)
                .backoff(1.0)
                .does(|_| async { panic!("oh no") }),
        ];
        let operator = stage.run(handlers).await;
        stage.create("obj", json!({})).await;
        stage.pass(1000.0).await;
        let counts = ["permanent", "mode", "ignored", "retries", "panics"];
        let counts = counts.map(|id| stage.journal.count(id));
        assert_eq!(counts, [1, 1, 1, 3, 2]);
        assert_eq!(operator.inspect().snapshot().daemons, 0);
        assert!(stage.log.has("obj", "the handler has panicked: oh no"));
        assert!(stage.log.has(
            "obj",
            "Daemon 'retries' failed with an exception and will stop now"
        ));
    });
}

#[test]
fn timeout_aborts_the_daemon() {
    sandboxed(async |stage| {
        let operator = stage
            .run([on::daemon("watch").timeout(30.0).ignores_all()])
            .await;
        stage.create("obj", json!({})).await;
        stage.pass(29.0).await;
        assert_eq!(operator.inspect().snapshot().daemons, 1);
        stage.pass(2.0).await;
        assert_eq!(operator.inspect().snapshot().daemons, 0);
        assert!(
            stage
                .log
                .has("obj", "Daemon 'watch' has timed out after 0:00:30.")
        );
        stage.journal.only("watch");
    });
}

#[test]
fn daemon_sees_the_current_body() {
    everywhere(async |stage| {
        let watch = on::daemon("watch").does(|call| async move {
            let (stopped, live) = (call.stopped.clone().unwrap(), call.live.clone().unwrap());
            while live.get().spec()["field"] != "new" {
                stopped.wait(Some(Duration::from_millis(10))).await;
            }
            gives(json!([
                call.body().spec()["field"],
                live.get().spec()["field"]
            ]))
        });
        let _operator = stage.run([watch]).await;
        stage.create("obj", json!({"field": "old"})).await;
        stage
            .wait_for("the daemon to run", || stage.journal.count("watch") == 1)
            .await;
        stage.merge("obj", json!({"spec": {"field": "new"}})).await;
        let expected = json!(["old", "new"]);
        stage
            .until("obj", "reported on", |object| {
                object["status"]["watch"] == expected
            })
            .await;
    });
}
