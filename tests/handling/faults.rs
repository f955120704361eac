//! Faults of networks and servers: nothing is lost, and recorded outcomes are not repeated.

use std::time::Duration;

use kopf_sandbox::fault::{Fault, Verb};
use kopf_testing::recording::{Breakpoint, Moment};
use serde_json::json;
use tokio::time::Instant;

use crate::front::{Declaration, done, gives, on, temporary};
use crate::stage::{Entry, FINALIZER, Stage, finalizers, is_handled, sandboxed};

/// Returns handlers for the whole lifecycle of an object, with results and a retry.
fn life() -> Vec<Declaration> {
    let make = on::create("make").does(|call| async move {
        if call.retry == 0 {
            return temporary("not yet", 1.0);
        }
        gives(json!({"made": call.retry}))
    });
    let change = on::update("change").does(|_| async { gives(json!({"changed": true})) });
    vec![make, on::create("other"), change, on::delete("unmake")]
}

/// Creates, changes and deletes an object, with a fault at each step.
async fn live(stage: &Stage, fault: impl Fn()) {
    fault();
    stage.create("obj", json!({"field": 1})).await;
    stage.pass(2000.0).await;
    let object = stage.get("obj").await;
    assert!(is_handled(&object), "{object:#}");
    assert_eq!(finalizers(&object), [FINALIZER]);
    assert_eq!(object["status"]["make"], json!({"made": 1}));

    stage.merge("obj", json!({"spec": {"field": 2}})).await;
    fault();
    stage.pass(2000.0).await;
    let object = stage.get("obj").await;
    assert!(is_handled(&object), "{object:#}");
    assert_eq!(object["status"]["change"], json!({"changed": true}));

    stage.delete("obj").await;
    fault();
    stage.pass(2000.0).await;
    assert!(stage.get("obj").await.is_null());
}

fn check_calls(stage: &Stage) {
    let calls = stage.journal.all();
    let calls: Vec<_> = calls.iter().map(Entry::brief).collect();
    let expected = [
        ("make", 0),
        ("other", 0),
        ("make", 1),
        ("change", 0),
        ("unmake", 0),
    ];
    assert_eq!(calls, expected);
}

#[test]
fn failed_writes_are_repeated_without_calling_handlers_again() {
    let refusals = [
        Fault::error(409),
        Fault::error(429).retry_after(7),
        Fault::error(500),
        Fault::error(503).retry_after(3),
        Fault::error(504),
        Fault::reset(),
        Fault::half_open(),
    ];
    for refusal in refusals {
        for times in [1, 2] {
            sandboxed(async |stage| {
                let _operator = stage.run(life()).await;
                let faults = stage.faults();
                live(stage, || {
                    let fault = refusal.clone().verb(Verb::Patch).times(times);
                    // The patches of the test precede the fault.
                    faults.inject(fault.kind("things"));
                })
                .await;
                check_calls(stage);
                let injected = faults.injected();
                assert!(injected.errors + injected.resets + injected.half_open >= 3 * times);
            });
        }
    }
}

#[test]
fn handling_continues_after_a_long_outage() {
    sandboxed(async |stage| {
        let _operator = stage.run(life()).await;
        let faults = stage.faults();
        let outage = Fault::error(503).verb(Verb::Patch).kind("things");
        faults.inject(outage.lasting(Duration::from_secs(3600)));
        stage.create("obj", json!({"field": 1})).await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(
            stage.journal.ids(),
            [""; 0],
            "the finalizer is written first"
        );
        stage.pass(1000.0).await;
        assert!(is_handled(&stage.get("obj").await));
        let retries: Vec<_> = stage.journal.of("make").iter().map(|e| e.retry).collect();
        assert_eq!(retries, [0, 1]);
    });
}

#[test]
fn outcomes_are_kept_until_they_are_written() {
    sandboxed(async |stage| {
        let make = on::create("make").does(|_| async { gives(json!({"made": true})) });
        let _operator = stage.run([make]).await;
        let faults = stage.faults();
        let refusal = Fault::error(409).verb(Verb::Patch).kind("things");
        faults.inject(refusal.lasting(Duration::from_secs(60)));
        stage.create("obj", json!({"field": 1})).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(stage.journal.count("make"), 1);
        // A change does not discard the outcome.
        let path = stage.path("obj");
        let mut object = stage.get("obj").await;
        object["metadata"]["labels"] = json!({"a": "b"});
        stage.api.replaced(&path, &object).await;
        stage.pass(600.0).await;
        let object = stage.get("obj").await;
        assert_eq!(object["status"]["make"], json!({"made": true}));
        assert!(is_handled(&object));
        assert_eq!(stage.journal.count("make"), 1);
    });
}

#[test]
fn write_to_a_removed_object_is_not_an_error() {
    sandboxed(async |stage| {
        let _operator = stage.run(life()).await;
        // The second write is the first outcome of a handler.
        let breakpoint = stage.breakpoint(2, Moment::Before);
        stage.create("obj", json!({})).await;
        breakpoint.reached().await;
        stage
            .merge("obj", json!({"metadata": {"finalizers": null}}))
            .await;
        stage.delete("obj").await;
        breakpoint.release();
        stage.pass(100.0).await;
        assert_eq!(
            stage.writes().last().and_then(|call| call.status),
            Some(404)
        );
        assert_eq!(stage.writes().len(), 2);
        assert!(stage.get("obj").await.is_null());
        // A new object of the same name is handled.
        stage.create("obj", json!({})).await;
        stage.pass(100.0).await;
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn broken_streams_continue_from_their_last_version() {
    for relist in [false, true] {
        sandboxed(async |stage| {
            let _operator = stage.run(life()).await;
            let faults = stage.faults();
            live(stage, || {
                if relist {
                    stage.relist();
                }
                faults.kill_watches();
            })
            .await;
            check_calls(stage);
        });
    }
}

#[test]
fn streams_can_break_at_any_event() {
    sandboxed(async |stage| {
        let _operator = stage.run(life()).await;
        let faults = stage.faults();
        live(stage, || {
            faults.inject(Fault::cut_watch().name("obj").times(3));
        })
        .await;
        check_calls(stage);
        assert!(faults.injected().cut_watches >= 3);
    });
}

#[test]
fn silent_streams_are_replaced() {
    sandboxed(async |stage| {
        let _operator = stage.run(life()).await;
        let faults = stage.faults();
        live(stage, || {
            faults.inject(Fault::freeze_watch().name("obj").times(1));
        })
        .await;
        check_calls(stage);
        assert_eq!(faults.injected().frozen_watches, 3);
    });
}

#[test]
fn half_open_watch_requests_are_replaced() {
    sandboxed(async |stage| {
        let _operator = stage.run(life()).await;
        let faults = stage.faults();
        live(stage, || {
            faults.inject(Fault::half_open().verb(Verb::Watch).kind("things").times(1));
            faults.kill_watches();
        })
        .await;
        check_calls(stage);
    });
}

#[test]
fn rejected_lists_and_watches_are_repeated() {
    for code in [403, 404, 410, 429, 500, 503] {
        sandboxed(async |stage| {
            let _operator = stage.run(life()).await;
            let faults = stage.faults();
            live(stage, || {
                faults.inject(Fault::error(code).verb(Verb::Watch).kind("things").times(2));
                faults.inject(Fault::error(code).verb(Verb::List).kind("things").times(1));
                faults.compact();
                faults.kill_watches();
            })
            .await;
            check_calls(stage);
        });
    }
}

#[test]
fn lost_events_are_recovered_by_the_next_stream() {
    sandboxed(async |stage| {
        let _operator = stage.run(life()).await;
        let faults = stage.faults();
        // The creation is not received until the stream is opened again.
        faults.inject(Fault::drop_events().name("obj").times(1));
        stage.create("obj", json!({"field": 1})).await;
        stage.pass(30.0).await;
        assert_eq!(stage.journal.ids(), [""; 0]);
        faults.kill_watches();
        stage.pass(30.0).await;
        assert!(is_handled(&stage.get("obj").await));

        // A change is lost while later events arrive: only a listing recovers it.
        faults.inject(Fault::drop_events().name("obj").times(1));
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.create("another", json!({})).await;
        stage.pass(30.0).await;
        assert!(!is_handled(&stage.get("obj").await));
        stage.relist();
        stage.pass(30.0).await;
        assert!(is_handled(&stage.get("obj").await));
        assert_eq!(stage.journal.count("change"), 1);
    });
}

#[test]
fn lost_echoes_do_not_stop_the_handling() {
    sandboxed(async |stage| {
        let _operator = stage.run(life()).await;
        let faults = stage.faults();
        let first_write = || stage.breakpoint(1, Moment::Before);
        let lose_the_rest = async |breakpoint: Breakpoint| {
            breakpoint.reached().await;
            faults.inject(Fault::drop_events().name("obj"));
            breakpoint.release();
            stage.pass(60.0).await;
            faults.clear();
            stage.relist();
            stage.pass(10.0).await;
        };
        let breakpoint = first_write();
        stage.create("obj", json!({"field": 1})).await;
        lose_the_rest(breakpoint).await;
        let object = stage.get("obj").await;
        assert!(is_handled(&object), "{object:#}");
        assert_eq!(object["status"]["make"], json!({"made": 1}));

        let breakpoint = first_write();
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        lose_the_rest(breakpoint).await;
        let object = stage.get("obj").await;
        assert!(is_handled(&object), "{object:#}");

        let breakpoint = first_write();
        stage.delete("obj").await;
        lose_the_rest(breakpoint).await;
        assert!(stage.get("obj").await.is_null());
        check_calls(stage);
    });
}

#[test]
fn combined_faults_are_survived() {
    for seed in 0..5_u32 {
        sandboxed(async |stage| {
            let _operator = stage.run(life()).await;
            let faults = stage.faults();
            let chance = 0.1 + f64::from(seed) * 0.05;
            let weather = [
                Fault::error(409).verb(Verb::Patch),
                Fault::error(500).verb(Verb::Patch),
                Fault::error(429).verb(Verb::Patch),
                Fault::reset().verb(Verb::Patch),
            ];
            let names: Vec<_> = (0..10).map(|number| format!("obj-{number}")).collect();
            for name in &names {
                stage.create(name, json!({"field": 1})).await;
            }
            for fault in weather {
                faults.inject(fault.kind("things").probability(chance));
            }
            faults.inject(Fault::cut_watch().probability(chance));
            faults.inject(Fault::error(503).verb(Verb::List).probability(chance));
            tokio::time::sleep(Duration::from_secs(1800)).await;
            faults.clear();
            stage.pass(1800.0).await;
            for name in &names {
                let object = stage.get(name).await;
                assert!(is_handled(&object), "{object:#}");
                assert_eq!(object["status"]["make"], json!({"made": 1}));
                let entries = stage.journal.all().into_iter();
                let entries: Vec<_> = entries.filter(|e| e.object == *name).collect();
                let calls: Vec<_> = entries.iter().map(Entry::brief).collect();
                assert_eq!(calls, [("make", 0), ("other", 0), ("make", 1)], "{name}");
            }
        });
    }
}

#[test]
fn running_handler_is_not_repeated_after_reconnects() {
    sandboxed(async |stage| {
        let slow = on::create("slow").does(|_| async {
            tokio::time::sleep(Duration::from_secs(300)).await;
            done()
        });
        let _operator = stage.run([slow]).await;
        let faults = stage.faults();
        stage.create("obj", json!({})).await;
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_secs(20)).await;
            faults.compact();
            faults.kill_watches();
        }
        stage.pass(600.0).await;
        assert_eq!(stage.journal.count("slow"), 1);
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn unavailable_resource_does_not_affect_others() {
    for code in [403, 404, 503] {
        sandboxed(async |stage| {
            let refusal = Fault::error(code).verb(Verb::List).verb(Verb::Watch);
            let id = stage.faults().inject(refusal.kind("configmaps"));
            let path = stage.api.ns_path("configmaps");
            let config_map = kopf_tests::objects::config_map("settings", json!({"a": "1"}));
            stage.api.created(&path, &config_map).await;
            let configured = on::create("configured").on(&["", "v1", "configmaps"]);
            let _operator = stage.run([on::create("make"), configured]).await;
            stage.create("obj", json!({})).await;
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert!(is_handled(&stage.get("obj").await), "{code}");
            assert_eq!(stage.journal.ids(), ["make"], "{code}");
            let warned = stage.log.records().into_iter();
            let mut warned = warned.filter(|record| record.level == tracing::Level::WARN);
            assert!(
                warned.any(|record| record.message.contains("configmaps")),
                "{code}"
            );

            assert!(stage.faults().remove(id));
            stage.pass(900.0).await;
            assert_eq!(stage.journal.ids(), ["make", "configured"], "{code}");
        });
    }
}

#[test]
fn requested_delays_are_obeyed_up_to_a_minute() {
    for (asked, least, most) in [(30, 30.0, 35.0), (3_600, 60.0, 65.0)] {
        sandboxed(async move |stage| {
            let _operator = stage.run([on::create("make")]).await;
            stage.settled().await;
            let busy = Fault::error(429).retry_after(asked).verb(Verb::Patch);
            stage.faults().inject(busy.kind("things").times(1));
            let began = Instant::now();
            stage.create("a", json!({})).await;
            stage.sleep(least - 1.0).await;
            assert!(!is_handled(&stage.get("a").await), "{asked}");
            stage.until_handled("a").await;
            let took = began.elapsed().as_secs_f64();
            assert!((least..most).contains(&took), "{asked}: {took}");
            assert_eq!(stage.journal.count("make"), 1);
            let records = stage.log.records().into_iter();
            let cut = records.filter(|record| record.message.contains("Delays are cut to 60"));
            assert_eq!(cut.count(), usize::from(asked > 60));
        });
    }
}
