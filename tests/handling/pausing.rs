//! A paused operator: it watches nothing and begins nothing, and goes on from a new listing. Here it
//! is paused by a record of somebody more important.

use kopf_core::settings::Backoffs;
use kopf_sandbox::fault::{Fault, Verb};
use serde_json::json;
use tokio::time::{Duration, sleep};

use crate::front::{Declaration, done, gives, on, temporary};
use crate::stage::{Stage, is_handled, sandboxed};

const FOREVER: u64 = 1_000_000;

async fn paused(stage: &Stage) {
    stage.put_peer("boss", 100, FOREVER, 0).await;
    stage.settled().await;
}

async fn resumed(stage: &Stage) {
    stage.remove_peer("boss").await;
    stage.settled().await;
}

async fn prepare(stage: &Stage) {
    stage.define_peerings().await;
    stage.create_peering("default").await;
}

#[test]
fn nothing_is_seen_in_a_pause_and_all_is_listed_after_it() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let operator = stage
            .operator([on::create("make"), on::update("change")])
            .peer("me", 0)
            .start()
            .await;
        stage.create("before", json!({"x": 1})).await;
        stage.create_settled("vanishing", json!({})).await;
        assert_eq!(operator.inspect().snapshot().objects, 2);
        let before = stage.log.len();
        paused(stage).await;
        stage.create("during", json!({})).await;
        stage.merge("before", json!({"spec": {"x": 2}})).await;
        stage.delete("vanishing").await;
        stage.pass(3_600.0).await;
        assert_eq!(stage.journal.ids(), ["make", "make"]);
        assert!(!is_handled(&stage.get("during").await));
        let says = |text: &str| {
            let records = stage.log.records();
            records[before..].iter().any(|r| r.message.contains(text))
        };
        assert!(says("Pausing the watch-stream for things.v1."));
        assert!(says("(blockers: default@test-"));
        assert!(!says("Resuming the watch-stream"));
        resumed(stage).await;
        assert!(says("Resuming the watch-stream for things.v1."));
        assert!(is_handled(&stage.get("during").await));
        assert_eq!(stage.journal.only("change").body["spec"]["x"], 2);
        assert_eq!(operator.inspect().snapshot().objects, 2);
    });
}

#[test]
fn no_request_is_sent_for_objects_in_a_pause() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let _operator = stage
            .operator([on::create("make")])
            .settings(|settings| settings.peering.lifetime = Duration::from_secs(86_400))
            .peer("me", 0)
            .start()
            .await;
        paused(stage).await;
        // Whatever asks for things is refused, and would be logged.
        stage.faults().inject(Fault::error(403).kind("things"));
        let before = stage.log.len();
        stage.pass(1_000.0).await;
        let since: Vec<_> = stage.log.records().split_off(before);
        assert!(
            since.iter().all(|r| !r.message.contains("things")),
            "{since:?}"
        );
        resumed(stage).await;
        let says = |text: &str| stage.log.records().iter().any(|r| r.message.contains(text));
        assert!(says("is not possible"), "it is asked for after the pause");
    });
}

/// Fails once, with this delay.
fn failing(delay: f64) -> Declaration {
    on::create("make").does(move |call| async move {
        match call.retry {
            0 => temporary("not yet", delay),
            _ => done(),
        }
    })
}

#[test]
fn handlers_do_not_begin_in_a_pause_because_their_time_has_come() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let operator = stage.operator([failing(10.0)]).peer("me", 0).start().await;
        stage.create_settled("obj", json!({"x": 1})).await;
        assert_eq!(stage.journal.count("make"), 1);
        paused(stage).await;
        assert_eq!(operator.inspect().snapshot().sleeping, 0);
        stage.pass(100.0).await;
        stage.merge("obj", json!({"spec": {"x": 2}})).await;
        stage.pass(100.0).await;
        assert_eq!(stage.journal.count("make"), 1);
        resumed(stage).await;
        let entry = stage.journal.all().pop().unwrap();
        assert_eq!(entry.brief(), ("make", 1));
        assert_eq!(
            entry.body["spec"]["x"], 2,
            "it is not what was left in memory"
        );
    });
}

#[test]
fn handlers_that_still_have_to_wait_after_a_pause_wait() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let _operator = stage.operator([failing(100.0)]).peer("me", 0).start().await;
        stage.create_settled("obj", json!({})).await;
        paused(stage).await;
        stage.pass(10.0).await;
        resumed(stage).await;
        stage.pass(80.0).await;
        assert_eq!(stage.journal.count("make"), 1);
        stage.pass(20.0).await;
        assert_eq!(stage.journal.count("make"), 2);
    });
}

#[test]
fn running_handlers_end_and_what_they_leave_is_written() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let make = on::create("make").does(|_| async {
            sleep(Duration::from_secs(60)).await;
            gives(json!("made"))
        });
        let next = on::create("next");
        let _operator = stage.operator([make, next]).peer("me", 0).start().await;
        stage.create("obj", json!({})).await;
        sleep(Duration::from_secs(30)).await;
        stage.put_peer("boss", 100, FOREVER, 0).await;
        stage.pass(60.0).await;
        assert_eq!(stage.get("obj").await["status"]["make"], "made");
        stage.pass(600.0).await;
        assert_eq!(stage.journal.count("next"), 0, "it has not begun");
        resumed(stage).await;
        assert_eq!(stage.journal.ids(), ["make", "next"]);
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn what_could_not_be_written_before_the_pause_is_written_in_it() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let _operator = stage
            .operator([on::create("make").does(|_| async { gives(json!("made")) })])
            .settings(|settings| settings.networking.error_backoffs = Backoffs::none())
            .peer("me", 0)
            .start()
            .await;
        let fault = Fault::error(500).verb(Verb::Patch).kind("things").times(3);
        stage.faults().inject(fault);
        stage.create("obj", json!({})).await;
        stage
            .until_so("the handler to be called", || {
                stage.journal.count("make") == 1
            })
            .await;
        stage.put_peer("boss", 100, FOREVER, 0).await;
        stage.pass(60.0).await;
        assert_eq!(stage.get("obj").await["status"]["make"], "made");
        assert_eq!(stage.journal.count("make"), 1);
    });
}

#[test]
fn an_operator_can_be_paused_before_it_begins() {
    sandboxed(async |stage| {
        prepare(stage).await;
        stage.create("obj", json!({})).await;
        stage.put_peer("boss", 100, FOREVER, 0).await;
        let operator = stage
            .operator([on::create("make")])
            .peer("me", 0)
            .start()
            .await;
        stage.pass(600.0).await;
        assert_eq!(stage.journal.count("make"), 0);
        assert!(operator.inspect().is_settled());
        resumed(stage).await;
        assert_eq!(stage.journal.count("make"), 1);
    });
}

#[test]
fn a_paused_operator_can_be_stopped() {
    sandboxed(async |stage| {
        prepare(stage).await;
        let operator = stage.operator([failing(10.0)]).peer("me", 0).start().await;
        stage.create_settled("obj", json!({})).await;
        paused(stage).await;
        operator.stop().await;
        assert_eq!(stage.peer_names().await, ["boss"]);
    });
}
