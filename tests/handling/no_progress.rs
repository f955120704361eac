//! Servers and webhooks that undo the writes of the operator: objects are handled nevertheless, and
//! the operator does not send requests in a loop.

use kopf_tests::webhook::{Call, Verdict, Webhook, rule};
use serde_json::json;

use crate::front::{Declaration, on};
use crate::stage::{
    FINALIZER, Stage, assert_rarer, everywhere, finalizers, is_handled, own_annotations, sandboxed,
    strip_annotations, strip_finalizers,
};

const TEN_MINUTES: u32 = 600;

fn handlers() -> [Declaration; 3] {
    [
        on::create("made"),
        on::update("updated"),
        on::delete("unmade"),
    ]
}

/// The messages of the warnings about an object.
fn warnings(stage: &Stage) -> Vec<String> {
    let records = stage.log.of("obj").into_iter();
    records
        .filter(|record| record.level == tracing::Level::WARN)
        .map(|record| record.message)
        .collect()
}

/// Handlers of a creation that takes more than one cycle.
fn gradual_handlers() -> [Declaration; 3] {
    [
        on::create("first"),
        on::create("second"),
        on::delete("unmade"),
    ]
}

/// Lets a webhook remove a part of the metadata in all updates of things.
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
fn finalizer_that_does_not_stay_is_added_more_and_more_rarely() {
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
        stage.delete_wholly("obj").await;
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
fn annotations_that_do_not_stay_are_written_more_and_more_rarely() {
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
        stage.delete_wholly("obj").await;
        assert_eq!(stage.journal.count("unmade"), 1);
    });
}

#[test]
fn handling_goes_on_at_once_when_annotations_stay_again() {
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
            .until_so("the warning", || {
                let named = format!("The finalizer '{FINALIZER}' does not stay");
                stage.log.has("obj", &named)
            })
            .await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.until_settled("obj").await;
        assert_eq!(stage.journal.ids(), ["made", "updated"]);
        let writes = stage.writes().len();
        assert!(writes < 20, "{writes} writes");
        stage.delete_wholly("obj").await;
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
            .until_so("the warning", || {
                stage.log.has("obj", "Handling makes no progress")
            })
            .await;
        stage.sleep(2.0).await;
        let writes = stage.writes().len();
        assert!(writes < 20, "{writes} writes");
        stage.delete_wholly("obj").await;
        assert_eq!(stage.journal.count("unmade"), 1);
    });
}
