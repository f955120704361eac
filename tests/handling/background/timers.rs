//! Schedule of timers, with the timelines A, B and C.

use std::time::Duration;

use kopf_core::handler::ErrorsMode;
use serde_json::json;
use tokio::time::sleep;

use super::times;
use crate::front::{arbitrary, done, gives, on, permanent, temporary};
use crate::stage::{finalizers, sandboxed};

#[test]
fn interval_is_the_time_between_calls() {
    sandboxed(async |stage| {
        let tick = on::timer("tick").interval(10.0).does(|_| async {
            sleep(Duration::from_secs(3)).await;
            done()
        });
        let operator = stage.run([tick]).await;
        let since = stage.now();
        stage.create("obj", json!({})).await;
        stage.pass(40.0).await;
        assert_eq!(times(stage, since, "tick"), [0, 13, 26, 39]);
        assert_eq!(operator.inspect().snapshot().timers, 1);
    });
}

#[test]
fn sharp_interval_is_the_time_between_starts() {
    sandboxed(async |stage| {
        let slow = |seconds: u64| {
            move |_| async move {
                sleep(Duration::from_secs(seconds)).await;
                done()
            }
        };
        let quick = on::timer("quick").interval(10.0).sharp().does(slow(3));
        let slow = on::timer("slow").interval(10.0).sharp().does(slow(13));
        let _operator = stage.run([quick, slow]).await;
        let since = stage.now();
        stage.create("obj", json!({})).await;
        sleep(Duration::from_secs(48)).await;
        assert_eq!(times(stage, since, "quick"), [0, 10, 20, 30, 40]);
        assert_eq!(times(stage, since, "slow"), [0, 20, 40]);
    });
}

#[test]
fn timer_without_an_interval_is_called_once() {
    sandboxed(async |stage| {
        let operator = stage.run([on::timer("tick")]).await;
        stage.create("obj", json!({})).await;
        stage.pass(1000.0).await;
        stage.merge("obj", json!({"spec": {"field": "x"}})).await;
        stage.settled().await;
        stage.journal.only("tick");
        assert_eq!(operator.inspect().snapshot().timers, 0);
        assert!(finalizers(&stage.get("obj").await).is_empty());
    });
}

#[test]
fn interval_idle_and_initial_delay_are_combined() {
    sandboxed(async |stage| {
        let tick = on::timer("tick")
            .interval(10.0)
            .idle(60.0)
            .initial_delay(5.0);
        let _operator = stage.run([tick]).await;
        let since = stage.now();
        stage.create("obj", json!({})).await;
        stage.pass(74.9).await;
        stage.merge("obj", json!({"spec": {"field": "x"}})).await;
        stage.pass(75.0).await;
        assert_eq!(times(stage, since, "tick"), [60, 70, 134, 144]);
    });
}

#[test]
fn only_essence_changes_reset_the_idle_time() {
    sandboxed(async |stage| {
        let handlers = [
            on::timer("tick").interval(10.0).idle(20.0),
            on::create("make"),
        ];
        let _operator = stage.run(handlers).await;
        let since = stage.now();
        stage.create("obj", json!({})).await;
        stage.pass(15.0).await;
        let status = json!({"status": {"noise": 1}});
        stage.merge_status("obj", status).await;
        stage.pass(10.0).await;
        assert_eq!(times(stage, since, "tick"), [20]);
        let labels = json!({"metadata": {"labels": {"a": "b"}}});
        stage.merge("obj", labels).await;
        stage.pass(25.0).await;
        assert_eq!(times(stage, since, "tick"), [20, 45]);
    });
}

#[test]
fn timer_with_idle_alone_is_called_once_per_change() {
    sandboxed(async |stage| {
        let tick = on::timer("tick")
            .idle(10.0)
            .does(|call| async move { gives(call.body().spec()["field"].clone()) });
        let _operator = stage.run([tick]).await;
        let since = stage.now();
        stage.create("obj", json!({"field": "a"})).await;
        stage.pass(100.0).await;
        assert_eq!(
            times(stage, since, "tick"),
            [10],
            "its own result does not count as a change"
        );
        stage.merge("obj", json!({"spec": {"field": "b"}})).await;
        stage.pass(5.0).await;
        stage.merge("obj", json!({"spec": {"field": "c"}})).await;
        stage.pass(100.0).await;
        assert_eq!(times(stage, since, "tick"), [10, 115]);
        assert_eq!(stage.get("obj").await["status"]["tick"], "c");
    });
}

#[test]
fn retries_run_before_the_next_interval() {
    sandboxed(async |stage| {
        let tick = on::timer("tick").interval(10.0).backoff(5.0);
        let tick = tick.does(|call| async move {
            if call.retry < 3 {
                return arbitrary("boom");
            }
            done()
        });
        let _operator = stage.run([tick]).await;
        let since = stage.now();
        stage.create("obj", json!({})).await;
        stage.pass(31.0).await;
        assert_eq!(times(stage, since, "tick"), [0, 5, 10, 15, 25, 30]);
        let entries = stage.journal.all();
        let retries: Vec<u32> = entries.iter().map(|entry| entry.retry).collect();
        assert_eq!(retries, [0, 1, 2, 3, 0, 1]);
        let started = |entry: usize| entries[entry].started.duration_since(since).as_secs();
        assert_eq!([0, 3, 4, 5].map(started), [0, 0, 25, 25]);
    });
}

#[test]
fn errors_define_the_retry_delay() {
    sandboxed(async |stage| {
        let tick = on::timer("tick").interval(10.0).does(|call| async move {
            if call.retry == 0 {
                return temporary("later", 3.0);
            }
            done()
        });
        let _operator = stage.run([tick]).await;
        let since = stage.now();
        stage.create("obj", json!({})).await;
        stage.pass(17.0).await;
        assert_eq!(times(stage, since, "tick"), [0, 3, 13, 16]);
    });
}

#[test]
fn permanent_failures_stop_the_timer() {
    sandboxed(async |stage| {
        let handlers = [
            on::timer("permanent")
                .interval(10.0)
                .does(|_| async { permanent("bye") }),
            on::timer("retries")
                .interval(10.0)
                .retries(2)
                .backoff(1.0)
                .does(|_| async { arbitrary("again") }),
            on::timer("ignored")
                .interval(10.0)
                .errors(ErrorsMode::Ignored)
                .does(|_| async { arbitrary("whatever") }),
        ];
        let operator = stage.run(handlers).await;
        stage.create("obj", json!({})).await;
        stage.pass(35.0).await;
        let counts = ["permanent", "retries", "ignored"].map(|id| stage.journal.count(id));
        assert_eq!(counts, [1, 2, 4]);
        stage.merge("obj", json!({"spec": {"field": "x"}})).await;
        stage.settled().await;
        assert_eq!(operator.inspect().snapshot().timers, 1);
        assert_eq!(stage.journal.count("permanent"), 1);
    });
}

#[test]
fn idle_precedes_every_attempt_and_does_not_count_as_runtime() {
    sandboxed(async |stage| {
        let tick = on::timer("tick").idle(10.0).timeout(5.0).backoff(1.0);
        let tick = tick.does(|call| async move {
            if call.retry == 0 {
                return arbitrary("boom");
            }
            done()
        });
        let _operator = stage.run([tick]).await;
        let since = stage.now();
        stage.create("obj", json!({})).await;
        stage.pass(100.0).await;
        assert_eq!(times(stage, since, "tick"), [10, 11]);
        assert_eq!(stage.journal.all()[1].runtime.as_secs(), 1);
    });
}
