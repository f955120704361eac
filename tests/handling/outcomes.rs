//! Outcomes of attempts: retry, success or failure.

use std::time::Duration;

use kopf_core::handler::ErrorsMode;
use kopf_core::outcome::HandlerError;
use kopf_engine::invocation::HandlerResult;
use serde_json::json;

use crate::front::{Declaration, arbitrary, done, gives, on, permanent, temporary};
use crate::stage::{Stage, everywhere, is_handled, progress, sandboxed};

/// Creates an object for one handler and lets a day pass. Returns the times of the calls in seconds
/// since the first one, and the log lines.
async fn play(stage: &Stage, handler: Declaration) -> (Vec<u64>, Vec<String>) {
    let operator = stage.run([handler]).await;
    stage.create("obj", json!({})).await;
    stage.pass(86_400.0).await;
    let entries = stage.journal.all();
    let first = entries.first().map(|entry| entry.runtime);
    let times = entries.iter().map(|entry| {
        let since = entry.runtime.saturating_sub(first.unwrap_or_default());
        // Retries run shortly after they are due.
        since.as_secs()
    });
    let times = times.collect();
    let lines = stage.log.of("obj").into_iter();
    let lines = lines
        .filter(|line| line.message.starts_with("Handler '") && !line.message.ends_with("invoked."))
        .map(|line| format!("{}: {}", line.level, line.message));
    let lines = lines.collect();
    assert!(is_handled(&stage.get("obj").await));
    operator.stop().await;
    (times, lines)
}

type Outcome = fn() -> HandlerResult;

#[track_caller]
fn check(handler: fn(Declaration) -> Declaration, outcome: Outcome, times: &[u64], log: &[&str]) {
    sandboxed(async |stage| {
        let handler = handler(on::create("fn")).does(move |_| async move { outcome() });
        let (seen, lines) = play(stage, handler).await;
        assert_eq!(seen, times);
        assert_eq!(lines, log);
    });
}

#[test]
fn success() {
    check(|it| it, done, &[0], &["INFO: Handler 'fn' succeeded."]);
}

#[test]
fn permanent_error_fails_the_handler_in_every_mode() {
    for mode in [
        ErrorsMode::Ignored,
        ErrorsMode::Temporary,
        ErrorsMode::Permanent,
    ] {
        let log = ["ERROR: Handler 'fn' failed permanently: never"];
        let handler = match mode {
            ErrorsMode::Ignored => |it: Declaration| it.errors(ErrorsMode::Ignored),
            ErrorsMode::Temporary => |it: Declaration| it.errors(ErrorsMode::Temporary),
            _ => |it: Declaration| it.errors(ErrorsMode::Permanent),
        };
        check(handler, || permanent("never"), &[0], &log);
    }
}

#[test]
fn arbitrary_errors_are_ignored_on_demand() {
    check(
        |it| it.errors(ErrorsMode::Ignored),
        || arbitrary("boom"),
        &[0],
        &["ERROR: Handler 'fn' failed with an exception and will ignore it: boom"],
    );
}

#[test]
fn arbitrary_errors_are_permanent_on_demand() {
    check(
        |it| it.errors(ErrorsMode::Permanent),
        || arbitrary("boom"),
        &[0],
        &["ERROR: Handler 'fn' failed with an exception and will stop now: boom"],
    );
}

#[test]
fn arbitrary_errors_are_retried_with_the_backoff_up_to_the_limit() {
    check(
        |it| it.backoff(10.0).retries(3),
        || arbitrary("boom"),
        &[0, 10, 20],
        &[
            "ERROR: Handler 'fn' failed with an exception and will try again in 10 seconds: boom",
            "ERROR: Handler 'fn' failed with an exception and will try again in 10 seconds: boom",
            "ERROR: Handler 'fn' failed with an exception and will stop now \
             (it would exceed 3 retries on the next attempt): boom",
        ],
    );
}

#[test]
fn default_backoff_is_one_minute() {
    sandboxed(async |stage| {
        let handler = on::create("fn")
            .retries(3)
            .does(|_| async { arbitrary("boom") });
        let (times, _) = play(stage, handler).await;
        assert_eq!(times, [0, 60, 120]);
    });
}

#[test]
fn temporary_errors_define_the_retry_delay() {
    sandboxed(async |stage| {
        let handler = on::create("fn").does(|call| async move {
            match call.retry {
                0 => temporary("soon", 5.0),
                1 => Err(HandlerError::temporary("now", None)),
                2 => temporary("later", 3600.0),
                _ => gives(json!(call.retry)),
            }
        });
        let (times, lines) = play(stage, handler).await;
        assert_eq!(times, [0, 5, 5, 3605]);
        let log = [
            "ERROR: Handler 'fn' failed temporarily: soon",
            "ERROR: Handler 'fn' failed temporarily: now",
            "ERROR: Handler 'fn' failed temporarily: later",
            "INFO: Handler 'fn' succeeded.",
        ];
        assert_eq!(lines, log);
        assert_eq!(stage.get("obj").await["status"]["fn"], 3);
    });
}

#[test]
fn retries_limit_temporary_errors() {
    sandboxed(async |stage| {
        let handler = on::create("fn")
            .retries(2)
            .does(|_| async { temporary("not yet", 5.0) });
        let (times, lines) = play(stage, handler).await;
        assert_eq!(times, [0, 5]);
        assert_eq!(lines.len(), 2);
        assert!(
            lines[1].starts_with("ERROR: Handler 'fn' failed"),
            "{lines:?}"
        );
        assert!(lines[1].contains("2 retries"), "{lines:?}");
        assert!(
            stage
                .log
                .has("obj", "Creation is processed: 0 succeeded; 1 failed.")
        );
    });
}

#[test]
fn retries_beyond_the_timeout_are_not_scheduled() {
    for arbitrarily in [false, true] {
        sandboxed(async |stage| {
            let handler = on::create("fn").timeout(25.0).backoff(10.0);
            let handler = handler.does(move |_| async move {
                if arbitrarily {
                    arbitrary("not yet")
                } else {
                    temporary("not yet", 10.0)
                }
            });
            let (times, lines) = play(stage, handler).await;
            // The attempt at 20 would be followed by one at 30, which is too late.
            assert_eq!(times, [0, 10, 20]);
            assert!(
                lines[2].starts_with("ERROR: Handler 'fn' failed"),
                "{lines:?}"
            );
            assert!(lines[2].contains("25"), "{lines:?}");
        });
    }
}

#[test]
fn running_handler_is_stopped_at_its_timeout() {
    sandboxed(async |stage| {
        let handler = on::create("fn").timeout(30.0).does(|_| async {
            tokio::time::sleep(Duration::from_secs(7200)).await;
            done()
        });
        let since = tokio::time::Instant::now();
        let _operator = stage.run([handler]).await;
        stage.create("obj", json!({})).await;
        stage
            .wait_for("the failure", || {
                stage
                    .log
                    .has("obj", "Creation is processed: 0 succeeded; 1 failed.")
            })
            .await;
        assert!(
            since.elapsed() < Duration::from_secs(40),
            "{:?}",
            since.elapsed()
        );
        assert_eq!(stage.journal.count("fn"), 1);
        stage.settled().await;
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn timeout_counts_across_restarts_and_prevents_further_calls() {
    sandboxed(async |stage| {
        let handler = on::create("fn")
            .timeout(100.0)
            .does(|_| async { temporary("x", 60.0) });
        let operator = stage.run([handler]).await;
        stage.create_settled("obj", json!({})).await;
        operator.stop().await;
        stage.pass(1000.0).await;
        operator.start().await;
        stage.settled().await;
        assert_eq!(stage.journal.count("fn"), 1);
        assert!(
            stage
                .log
                .has("obj", "Creation is processed: 0 succeeded; 1 failed.")
        );
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn retries_count_across_restarts() {
    sandboxed(async |stage| {
        let handler = on::create("fn")
            .retries(3)
            .does(|_| async { temporary("x", 60.0) });
        let operator = stage.run([handler]).await;
        stage.create("obj", json!({})).await;
        for _ in 0..5 {
            stage.pass(70.0).await;
            operator.restart().await;
        }
        let retries: Vec<_> = stage.journal.all().iter().map(|e| e.retry).collect();
        assert_eq!(retries, [0, 1, 2]);
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn attempts_have_their_number_start_and_runtime() {
    sandboxed(async |stage| {
        let handler = on::create("fn").does(|call| async move {
            if call.retry < 2 {
                return temporary("x", 60.0);
            }
            done()
        });
        let operator = stage.run([handler]).await;
        stage.create("obj", json!({})).await;
        stage.pass(65.0).await;
        operator.restart().await;
        stage.pass(100.0).await;
        let entries = stage.journal.all();
        assert_eq!(entries.len(), 3);
        for (number, entry) in entries.iter().enumerate() {
            assert_eq!(entry.retry as usize, number);
            // The start of the first attempt is not stored yet and has a higher resolution.
            let difference = entry.started.duration_since(entries[0].started);
            assert!(difference.abs() < jiff::SignedDuration::from_millis(1));
            assert_eq!(entry.runtime.as_secs(), number as u64 * 60);
        }
    });
}

#[test]
fn panic_fails_only_its_handler() {
    sandboxed(async |stage| {
        let panicking = on::create("fn")
            .retries(2)
            .backoff(5.0)
            .does(|call| async move {
                assert!(call.retry > 0, "oops");
                done()
            });
        let early = on::create("early").backoff(5.0);
        let early = early.does(|call| {
            assert!(call.retry > 0, "oops before the work");
            std::future::ready(done())
        });
        let _operator = stage.run([panicking, early]).await;
        stage.create_settled("obj", json!({})).await;
        assert!(
            progress(&stage.get("obj").await, "fn")["message"]
                .as_str()
                .is_some_and(|text| text.contains("oops"))
        );
        stage.pass(30.0).await;
        assert!(is_handled(&stage.get("obj").await));
        assert!(
            stage
                .log
                .has("obj", "Creation is processed: 2 succeeded; 0 failed.")
        );
    });
}

#[test]
fn blocking_handlers_have_the_same_outcomes() {
    everywhere(async |stage| {
        let slow = on::create("slow").blocks(|call| {
            if call.retry == 0 {
                return temporary("not yet", 0.1);
            }
            gives(json!({"thread": std::thread::current().name().is_some(), "retry": call.retry}))
        });
        let panicking = on::create("panicking")
            .errors(ErrorsMode::Permanent)
            .blocks(|_| panic!("oops"));
        let _operator = stage.run([slow, panicking]).await;
        stage.create("obj", json!({})).await;
        let object = stage
            .until("obj", "handled", |object| {
                is_handled(object) && object["status"].is_object()
            })
            .await;
        assert_eq!(object["status"]["slow"]["retry"], 1);
        let line = "Handler 'panicking' failed with an exception and will stop now";
        stage
            .wait_for("the failure to be logged", || stage.log.has("obj", line))
            .await;
    });
}
