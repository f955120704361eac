//! Servers that refuse to remove the finalizer: the handlers have finished nevertheless.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kopf_sandbox::fault::{Fault, Verb};
use kopf_tests::webhook::{Call, Verdict, Webhook, rule};
use serde_json::json;

use super::{Other, Part, check_calls};
use crate::front::{Declaration, done, gives, on, temporary};
use crate::stage::{
    FINALIZER, Stage, everywhere, finalizers, own_annotations, progress, sandboxed,
};

/// Starts a webhook that denies the removal of the finalizer while the flag is set.
async fn denying(stage: &Stage, flag: &Arc<AtomicBool>) -> Webhook {
    let flag = Arc::clone(flag);
    let webhook = Webhook::start(move |call: &Call| {
        let kept = finalizers(&call.request()["object"]).contains(&FINALIZER);
        let was = finalizers(&call.request()["oldObject"]).contains(&FINALIZER);
        if was && !kept && flag.load(Ordering::SeqCst) {
            return Verdict::deny("not now");
        }
        Verdict::allow()
    })
    .await;
    let rules = [rule(&stage.api.group(), "v1", &["things"], &["UPDATE"])];
    let hook = webhook.hook(&stage.api, "deny.example.com", "/deny", &rules);
    webhook.validate_with(&stage.api, "deny", &[hook]).await;
    webhook
}

fn handlers() -> [Declaration; 2] {
    let retried = on::delete("retried").does(|call| async move {
        if call.retry == 0 {
            return temporary("not yet", 0.2);
        }
        gives(json!("done"))
    });
    [on::delete("simple"), retried]
}

const CALLS: [(&str, u32); 3] = [("simple", 0), ("retried", 0), ("retried", 1)];

#[test]
fn denied_removal_is_recorded_and_repeated_after_a_restart() {
    everywhere(async |stage| {
        stage.use_real_time();
        let flag = Arc::new(AtomicBool::new(true));
        let _webhook = denying(stage, &flag).await;
        let operator = stage.run(handlers()).await;
        let metadata = json!({"finalizers": ["example.com/a"]});
        stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        stage.until_handled("obj").await;
        stage.delete("obj").await;
        let is_recorded = |object: &serde_json::Value| {
            ["simple", "retried"]
                .iter()
                .all(|id| progress(object, id)["success"] == true)
        };
        stage.until("obj", "recorded", is_recorded).await;
        check_calls(stage, &CALLS);
        operator.kill().await;
        operator.start().await;
        let denials = stage.writes_to("obj").len();
        stage
            .wait_for("another attempt", || stage.writes_to("obj").len() > denials)
            .await;
        flag.store(false, Ordering::SeqCst);
        let object = stage
            .until("obj", "released", |object| {
                !finalizers(object).contains(&FINALIZER)
            })
            .await;
        check_calls(stage, &CALLS);
        assert_eq!(own_annotations(&object), ["last-handled-configuration"]);
    });
}

#[test]
fn denied_removal_amid_writes_does_not_repeat_handlers() {
    everywhere(async |stage| {
        stage.use_real_time();
        let flag = Arc::new(AtomicBool::new(true));
        let _webhook = denying(stage, &flag).await;
        let _operator = stage.run(handlers()).await;
        stage.create_handled("obj", json!({})).await;
        // Changes of the spec end the wait after a rejection.
        let _writing = Other::new(stage).writing(Part::Spec, 0.2);
        stage.delete("obj").await;
        stage
            .wait_for("a denial", || stage.log.has("obj", "not now"))
            .await;
        stage.sleep(2.0).await;
        flag.store(false, Ordering::SeqCst);
        stage.until_gone("obj").await;
        check_calls(stage, &CALLS);
    });
}

#[test]
fn failing_server_does_not_repeat_handlers() {
    for fault in [
        Fault::error(500).times(40),
        Fault::error(403).times(5),
        Fault::error(422).times(5),
        Fault::error(409).times(5),
        Fault::reset().times(40),
    ] {
        sandboxed(async |stage| {
            let _operator = stage.run(handlers()).await;
            stage.create_handled("obj", json!({})).await;
            stage.settled().await;
            stage.delete("obj").await;
            stage
                .wait_for("the last call", || stage.journal.ids().len() == 3)
                .await;
            stage.faults().inject(fault.clone().verb(Verb::Patch));
            stage.until_gone("obj").await;
            check_calls(stage, &CALLS);
        });
    }
}

#[test]
fn normal_deletion_is_not_recorded() {
    everywhere(async |stage| {
        let _operator = stage
            .run([on::delete("unmake").does(|_| async { done() })])
            .await;
        stage.create_handled("obj", json!({})).await;
        stage.settled().await;
        stage.recorder.take();
        stage.delete_and_wait("obj").await;
        assert_eq!(stage.writes().len(), 1);
    });
}
