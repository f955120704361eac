//! Servers and webhooks that undo writes of the operator: objects are still handled, and requests
//! are not sent in a loop.

use kopf_tests::webhook::{Call, Verdict, Webhook, rule};
use serde_json::json;

use crate::front::{Declaration, done, on};
use crate::stage::{
    FINALIZER, Stage, assert_rarer, everywhere, finalizers, is_handled, own_annotations, sandboxed,
    stamp_spec, strip_annotations, strip_finalizers,
};

const TEN_MINUTES: u32 = 600;

fn handlers() -> [Declaration; 3] {
    [
        on::create("made"),
        on::update("updated"),
        on::delete("unmade"),
    ]
}

/// Returns the warnings about an object.
fn warnings(stage: &Stage) -> Vec<String> {
    let records = stage.log.of("obj").into_iter();
    records
        .filter(|record| record.level == tracing::Level::WARN)
        .map(|record| record.message)
        .collect()
}

/// Returns handlers of a creation that takes more than one cycle.
fn gradual_handlers() -> [Declaration; 3] {
    [
        on::create("first"),
        on::create("second"),
        on::delete("unmade"),
    ]
}

/// Starts a webhook that removes a field of the metadata in all updates of things.
async fn stripping(stage: &Stage, field: &'static str) -> Webhook {
    let webhook = Webhook::start(move |call: &Call| {
        if call.request()["object"]["metadata"][field].is_null() {
            return Verdict::allow();
        }
        let path = format!("/metadata/{field}");
        Verdict::patch(&json!([{"op": "remove", "path": path}]))
    })
    .await;
    let rules = [rule(&stage.api.group(), "v1", &["things"], &["UPDATE"])];
    let hook = webhook.hook(&stage.api, "strip.example.com", "/strip", &rules);
    webhook.mutate_with(&stage.api, "strip", &[hook]).await;
    webhook
}

#[test]
fn removed_finalizer_is_added_with_backoff() {
    sandboxed(async |stage| {
        let setup = stage.operator(handlers()).altering(strip_finalizers);
        let _operator = setup.start().await;
        stage.create("obj", json!({"field": 1})).await;
        let seconds = stage.seconds_of_writes(TEN_MINUTES).await;
        assert_rarer(&seconds);
        let object = stage.get("obj").await;
        assert!(is_handled(&object), "{object:#}");
        assert!(finalizers(&object).is_empty());
        assert_eq!(stage.journal.ids(), ["made"]);
        let warnings = warnings(stage);
        assert!(!warnings.is_empty() && warnings.len() <= 40);
        let named = format!("The finalizer '{FINALIZER}' does not stay as it was written");
        assert!(
            warnings.iter().all(|text| text.starts_with(&named)),
            "{warnings:#?}"
        );
        stage.delete_and_wait("obj").await;
        let seconds = stage.seconds_of_writes(60).await;
        assert!(seconds.is_empty(), "{seconds:?}");
    });
}

#[test]
fn changes_are_handled_without_the_finalizer() {
    sandboxed(async |stage| {
        let setup = stage.operator(handlers()).altering(strip_finalizers);
        let _operator = setup.start().await;
        stage.create("obj", json!({"field": 0})).await;
        stage.pass(300.0).await;
        for value in 1..=20 {
            let before = stage.writes().len();
            stage.merge("obj", json!({"spec": {"field": value}})).await;
            stage.pass(1.0).await;
            assert!(is_handled(&stage.get("obj").await));
            let writes = stage.writes().len() - before;
            assert!(writes <= 2, "{writes} writes for one change");
        }
        assert_eq!(stage.journal.count("updated"), 20);
    });
}

#[test]
fn removed_annotations_are_written_with_backoff() {
    sandboxed(async |stage| {
        let setup = stage
            .operator(gradual_handlers())
            .altering(strip_annotations);
        let _operator = setup.start().await;
        stage.create("obj", json!({"field": 1})).await;
        let seconds = stage.seconds_of_writes(TEN_MINUTES).await;
        assert_rarer(&seconds);
        let object = stage.get("obj").await;
        assert!(own_annotations(&object).is_empty());
        let calls = stage.journal.count("first");
        assert!((2..=20).contains(&calls), "{calls} calls");
        let warnings = warnings(stage);
        assert!(!warnings.is_empty() && warnings.len() <= 40);
        let stalled = |text: &String| text.starts_with("Handling makes no progress");
        assert!(warnings.iter().all(stalled), "{warnings:#?}");
        stage.delete_and_wait("obj").await;
        assert_eq!(stage.journal.count("unmade"), 1);
    });
}

/// Starts a webhook that changes the spec in all updates of things.
async fn stamping(stage: &Stage) -> Webhook {
    let count = std::sync::atomic::AtomicU64::new(0);
    let webhook = Webhook::start(move |_: &Call| {
        let count = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Verdict::patch(&json!([{"op": "add", "path": "/spec/stamp", "value": count}]))
    })
    .await;
    let rules = [rule(&stage.api.group(), "v1", &["things"], &["UPDATE"])];
    let hook = webhook.hook(&stage.api, "stamp.example.com", "/stamp", &rules);
    webhook.mutate_with(&stage.api, "stamp", &[hook]).await;
    webhook
}

#[test]
fn updates_by_stamped_writes_are_handled_ever_more_rarely() {
    sandboxed(async |stage| {
        let setup = stage.operator(handlers()).altering(stamp_spec);
        let _operator = setup.start().await;
        stage.create("obj", json!({"field": 1})).await;
        let seconds = stage.seconds_of_writes(TEN_MINUTES).await;
        assert_rarer(&seconds);
        let calls = stage.journal.count("updated");
        assert!((2..=20).contains(&calls), "{calls} calls");
        let warnings = warnings(stage);
        assert!(!warnings.is_empty() && warnings.len() <= 40);
        let named = "Each write of this operator also changes the field \"spec.stamp\"";
        assert!(
            warnings.iter().all(|text| text.starts_with(named)),
            "{warnings:#?}"
        );
        let manager = "(its field manager is \"";
        assert!(warnings[0].contains(manager), "{warnings:#?}");
        stage.delete_and_wait("obj").await;
        assert_eq!(stage.journal.count("unmade"), 1);
    });
}

#[test]
fn handling_is_prompt_when_writes_are_not_stamped_any_more() {
    sandboxed(async |stage| {
        let setup = stage.operator(handlers()).altering(stamp_spec);
        let operator = setup.start().await;
        stage.create("obj", json!({"field": 1})).await;
        stage.sleep(300.0).await;
        operator.stop().await;
        let _operator = stage.run(handlers()).await;
        stage.settled().await;
        for field in 2..6 {
            let calls = stage.journal.count("updated");
            stage.merge("obj", json!({"spec": {"field": field}})).await;
            stage.pass(0.5).await;
            assert_eq!(stage.journal.count("updated"), calls + 1);
        }
    });
}

#[test]
fn frequent_changes_by_others_are_not_taken_for_stamps() {
    sandboxed(async |stage| {
        let slow = on::update("updated").does(|_| async {
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            done()
        });
        let _operator = stage.run([on::create("made"), slow]).await;
        stage.create_handled("obj", json!({"field": 1})).await;
        for field in 0..300 {
            stage.merge("obj", json!({"spec": {"field": field}})).await;
            stage.sleep(0.2).await;
        }
        stage.pass(5.0).await;
        assert!(warnings(stage).is_empty(), "{:#?}", warnings(stage));
        let calls = stage.journal.count("updated");
        assert!(calls >= 40, "{calls} calls in a minute");
    });
}

#[test]
fn own_changes_of_the_spec_are_not_taken_for_stamps() {
    sandboxed(async |stage| {
        let step = on::update("updated").does(|call| async move {
            let step = call.body().spec()["step"].as_u64().unwrap_or_default();
            if step < 10 {
                let path = kopf_core::field::FieldPath::parse("spec.step");
                call.patch.with(|patch| patch.set(&path, json!(step + 1)));
            }
            done()
        });
        let _operator = stage.run([on::create("made"), step]).await;
        stage.create_handled("obj", json!({})).await;
        stage.merge("obj", json!({"spec": {"step": 1}})).await;
        stage.pass(1.0).await;
        assert_eq!(stage.get("obj").await["spec"]["step"], 10);
        assert!(warnings(stage).is_empty(), "{:#?}", warnings(stage));
    });
}

#[test]
fn webhook_that_stamps_the_spec_does_not_cause_a_loop() {
    everywhere(async |stage| {
        stage.use_real_time();
        let _webhook = stamping(stage).await;
        let _operator = stage.run(handlers()).await;
        stage.create("obj", json!({"field": 1})).await;
        stage
            .wait_for("the warning", || {
                let named = "Each write of this operator also changes the field";
                stage.log.has("obj", named)
            })
            .await;
        stage.sleep(2.0).await;
        let writes = stage.writes().len();
        assert!(writes < 20, "{writes} writes");
        stage.delete_and_wait("obj").await;
        assert_eq!(stage.journal.count("unmade"), 1);
    });
}

#[test]
fn handling_continues_when_annotations_are_kept_again() {
    sandboxed(async |stage| {
        let setup = stage
            .operator(gradual_handlers())
            .altering(strip_annotations);
        let operator = setup.start().await;
        stage.create("obj", json!({"field": 1})).await;
        stage.sleep(60.0).await;
        operator.stop().await;
        let _operator = stage.run(gradual_handlers()).await;
        stage.settled().await;
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn webhook_that_removes_finalizers_does_not_stop_the_handling() {
    everywhere(async |stage| {
        stage.use_real_time();
        let _webhook = stripping(stage, "finalizers").await;
        let _operator = stage.run(handlers()).await;
        stage.create_handled("obj", json!({"field": 1})).await;
        stage
            .wait_for("the warning", || {
                let named = format!("The finalizer '{FINALIZER}' does not stay");
                stage.log.has("obj", &named)
            })
            .await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.until_settled("obj").await;
        assert_eq!(stage.journal.ids(), ["made", "updated"]);
        let writes = stage.writes().len();
        assert!(writes < 20, "{writes} writes");
        stage.delete_and_wait("obj").await;
    });
}

#[test]
fn webhook_that_removes_annotations_does_not_cause_a_loop() {
    everywhere(async |stage| {
        stage.use_real_time();
        let _webhook = stripping(stage, "annotations").await;
        let _operator = stage.run(gradual_handlers()).await;
        stage.create("obj", json!({"field": 1})).await;
        stage
            .wait_for("the warning", || {
                stage.log.has("obj", "Handling makes no progress")
            })
            .await;
        stage.sleep(2.0).await;
        let writes = stage.writes().len();
        assert!(writes < 20, "{writes} writes");
        stage.delete_and_wait("obj").await;
        assert_eq!(stage.journal.count("unmade"), 1);
    });
}
