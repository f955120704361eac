//! Settings without tests elsewhere: each test fails if its setting is ignored.

use std::time::Duration;

use kopf_core::settings::Queueing;
use kopf_sandbox::fault::{Fault, Verb};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::front::{done, on};
use crate::stage::sandboxed;

#[test]
fn exit_timeout_limits_running_handlers_at_exit() {
    for (seconds, ends) in [(2, false), (20, true)] {
        sandboxed(async |stage| {
            let slow = on::create("make").does(|_| async {
                sleep(Duration::from_secs(10)).await;
                done()
            });
            let operator = stage.operator([slow]).settings(|settings| {
                settings.queueing.exit_timeout = Duration::from_secs(seconds);
            });
            let operator = operator.start().await;
            stage.create("obj", json!({})).await;
            stage
                .wait_for("the handler to run", || stage.journal.count("make") == 1)
                .await;
            let before = Instant::now();
            operator.stop().await;
            assert!(before.elapsed() <= Duration::from_secs(seconds + 1));
            assert_eq!(stage.log.has("obj", "Handler 'make' succeeded."), ends);
        });
    }
}

#[test]
fn inactivity_timeout_replaces_silent_streams() {
    for (limit, is_noticed) in [(Some(10), true), (Some(1_000), false), (None, false)] {
        sandboxed(async |stage| {
            let operator = stage.operator([on::create("make")]).settings(|settings| {
                settings.watching.inactivity_timeout = limit.map(Duration::from_secs);
            });
            let _operator = operator.start().await;
            stage.settled().await;
            stage
                .faults()
                .inject(Fault::freeze_watch().name("obj").times(1));
            stage.create("obj", json!({})).await;
            sleep(Duration::from_secs(30)).await;
            assert_eq!(stage.journal.count("make") == 1, is_noticed);
        });
    }
}

#[test]
fn reconnect_backoff_is_the_first_delay_after_an_error() {
    for (seconds, is_soon) in [(0.1, true), (100.0, false)] {
        sandboxed(async |stage| {
            let operator = stage.operator([on::create("make")]).settings(|settings| {
                settings.watching.reconnect_backoff = Duration::from_secs_f64(seconds);
            });
            let _operator = operator.start().await;
            stage.settled().await;
            let failure = Fault::error(500).verb(Verb::Watch).kind("things");
            stage.faults().inject(failure.times(1));
            stage.faults().kill_watches();
            stage.create("obj", json!({})).await;
            sleep(Duration::from_secs(10)).await;
            assert_eq!(stage.journal.count("make") == 1, is_soon);
        });
    }
}

#[test]
fn page_size_limits_objects_per_list_request() {
    for (size, expected) in [(2, 3), (500, 1)] {
        sandboxed(async |stage| {
            for number in 0..5 {
                stage.create(&format!("obj{number}"), json!({})).await;
            }
            let listing = Fault::latency(Duration::ZERO).verb(Verb::List);
            let listing = stage.faults().inject(listing.kind("things"));
            let operator = stage.operator([on::create("make")]).settings(|settings| {
                settings.watching.page_size = size;
            });
            let _operator = operator.start().await;
            stage.settled().await;
            assert_eq!(stage.journal.count("make"), 5);
            assert_eq!(stage.faults().count(listing), expected, "{size}");
        });
    }
}

#[test]
fn max_events_and_max_bytes_limit_the_queue() {
    type Change = fn(&mut Queueing);
    let few: Change = |queueing| queueing.max_events = 1;
    let small: Change = |queueing| queueing.max_bytes = 1;
    for (change, is_slowed_down) in [(None, false), (Some(few), true), (Some(small), true)] {
        sandboxed(async |stage| {
            let slow = on::create("make").does(|_| async {
                sleep(Duration::from_secs(60)).await;
                done()
            });
            let operator = stage.operator([slow]).settings(|settings| {
                settings.queueing.worker_limit = Some(1);
                if let Some(change) = change {
                    change(&mut settings.queueing);
                }
            });
            let _operator = operator.start().await;
            for name in ["a", "b", "c"] {
                stage.create(name, json!({})).await;
            }
            stage.pass(300.0).await;
            assert_eq!(stage.journal.count("make"), 3, "nothing is lost");
            let mut records = stage.log.records().into_iter();
            let is_logged = records.any(|record| record.message.contains("is slowed down"));
            assert_eq!(is_logged, is_slowed_down);
        });
    }
}
