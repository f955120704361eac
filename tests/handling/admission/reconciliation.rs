//! Managed configurations that other operators, users and tools also change.

use std::time::Duration;

use kopf_sandbox::fault::{Fault, Verb};
use serde_json::{Value, json};
use tracing::Level;

use super::FakeServer;
use super::certificates::elected;
use super::configuration::{KINDS, configuration, managed, managing, path, until, urls};
use crate::front::{Declaration, on};
use crate::stage::{Actor, Stage, everywhere, sandboxed};

/// Starts an operator with one webhook at this host. Start times differ by at least a second.
async fn started<'a>(stage: &'a Stage, host: &str) -> Actor<'a> {
    let server = FakeServer::at(&format!("https://{host}:1/"));
    let operator = managing(stage, &server, [handler()]).start().await;
    stage.pass(1.0).await;
    operator
}

/// Starts the same operator as a peer.
async fn started_peer<'a>(stage: &'a Stage, name: &str, priority: i64) -> Actor<'a> {
    let server = FakeServer::at(&format!("https://{name}:1/"));
    let operator = managing(stage, &server, [handler()]).peer(name, priority);
    let operator = operator.start().await;
    stage.pass(1.0).await;
    operator
}

fn handler() -> Declaration {
    on::validate("check").ignore_failures()
}

/// The same as a replica of a group.
async fn started_replica<'a>(stage: &'a Stage, host: &str) -> Actor<'a> {
    let server = FakeServer::at(&format!("https://{host}:1/"));
    let operator = managing(stage, &server, [handler()]).settings(elected(stage));
    let operator = operator.start().await;
    stage.pass(1.0).await;
    operator
}

/// Waits until the webhook is that of this host.
async fn until_at(stage: &Stage, host: &str) {
    let expected = format!("https://{host}:1/check");
    until(stage, KINDS[0], &expected, |all| urls(all) == [&expected]).await;
}

async fn is_at(stage: &Stage, host: &str) -> bool {
    let configuration = configuration(stage, KINDS[0]).await;
    configuration["webhooks"][0]["clientConfig"]["url"] == format!("https://{host}:1/check")
}

/// Returns the number of records with this level that contain this text.
fn logged(stage: &Stage, level: Level, text: &str) -> usize {
    let records = stage.log.records().into_iter();
    records
        .filter(|record| record.level == level && record.message.contains(text))
        .count()
}

/// The webhooks in each write to the validating configuration, without reads by empty patches.
fn written_webhooks(stage: &Stage) -> Vec<Value> {
    let calls = stage.writes_to(&managed(stage)).into_iter();
    let calls = calls.filter(|call| call.path.contains(KINDS[0]));
    let written = calls.filter_map(|call| call.body.get("webhooks").cloned());
    written.collect()
}

/// Number of writes to the validating configuration.
fn writes(stage: &Stage) -> usize {
    let calls = stage.writes_to(&managed(stage)).into_iter();
    calls.filter(|call| call.path.contains(KINDS[0])).count()
}

#[test]
fn webhooks_are_restored_after_a_second_operator_exits() {
    everywhere(async |stage| {
        let _first = started(stage, "first").await;
        until_at(stage, "first").await;
        let second = started(stage, "second").await;
        until_at(stage, "second").await;
        stage.settled().await;
        assert!(
            is_at(stage, "second").await,
            "the operator that started last owns it"
        );
        second.stop().await;
        until_at(stage, "first").await;
    });
}

#[test]
fn exit_of_a_non_owner_changes_nothing() {
    everywhere(async |stage| {
        let first = started(stage, "first").await;
        until_at(stage, "first").await;
        let _second = started(stage, "second").await;
        until_at(stage, "second").await;
        first.stop().await;
        stage.settled().await;
        assert!(is_at(stage, "second").await);
    });
}

#[test]
fn newest_remaining_operator_takes_over() {
    everywhere(async |stage| {
        let _first = started(stage, "first").await;
        let _second = started(stage, "second").await;
        let third = started(stage, "third").await;
        until_at(stage, "third").await;
        third.stop().await;
        until_at(stage, "second").await;
        stage.settled().await;
        assert!(is_at(stage, "second").await);
    });
}

#[test]
fn killed_owner_without_peering_is_replaced_at_the_next_start() {
    everywhere(async |stage| {
        let _first = started(stage, "first").await;
        let second = started(stage, "second").await;
        until_at(stage, "second").await;
        second.kill().await;
        stage.settled().await;
        assert!(is_at(stage, "second").await, "the crash is not detected");
        let _third = started(stage, "third").await;
        until_at(stage, "third").await;
    });
}

#[test]
fn removed_configurations_are_restored() {
    everywhere(async |stage| {
        let _operator = started(stage, "host").await;
        until_at(stage, "host").await;
        let path = path(KINDS[0], &managed(stage));
        stage.api.deleted(&path).await;
        until_at(stage, "host").await;
        assert_eq!(logged(stage, Level::INFO, ": it was removed."), 1);
    });
}

#[test]
fn edited_webhooks_are_restored() {
    everywhere(async |stage| {
        let _operator = started(stage, "host").await;
        until_at(stage, "host").await;
        let before = configuration(stage, KINDS[0]).await["webhooks"].take();
        let path = path(KINDS[0], &managed(stage));
        let mut edited = before.clone();
        edited[0]["timeoutSeconds"] = json!(5);
        for patch in [
            json!({"webhooks": edited}),
            json!({"webhooks": []}),
            json!({"webhooks": null}),
        ] {
            stage.api.merged(&path, &patch).await;
            until(stage, KINDS[0], "restored", |all| json!(all) == before).await;
        }
        assert_eq!(logged(stage, Level::INFO, ": it was edited."), 3);
    });
}

#[test]
fn edits_of_other_fields_are_kept() {
    everywhere(async |stage| {
        let _operator = started(stage, "host").await;
        until_at(stage, "host").await;
        stage.settled().await;
        let before = writes(stage);
        let path = path(KINDS[0], &managed(stage));
        let patch = json!({"metadata": {"labels": {"edited": "yes"}}});
        stage.api.merged(&path, &patch).await;
        stage.pass(2.0).await;
        assert_eq!(writes(stage), before);
    });
}

#[test]
fn repeated_edits_are_restored_with_backoff_and_warnings() {
    sandboxed(async |stage| {
        let _operator = started(stage, "host").await;
        until_at(stage, "host").await;
        let before = writes(stage);
        let path = path(KINDS[0], &managed(stage));
        for _ in 0..36_000 {
            if is_at(stage, "host").await {
                let patch = json!({"webhooks": []});
                stage.api.merged(&path, &patch).await;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        // Restored after 1, 2, 4… seconds, then every 5 minutes.
        let restored = writes(stage) - before;
        assert!((10..=25).contains(&restored), "{restored}");
        let warnings = logged(
            stage,
            Level::WARN,
            "is changed repeatedly by another client",
        );
        assert!(warnings >= restored - 2, "{warnings} of {restored}");
        // The backoff is reset after a long interval without edits.
        until_at(stage, "host").await;
        stage.pass(1_000.0).await;
        stage.api.merged(&path, &json!({"webhooks": []})).await;
        stage.pass(0.5).await;
        assert!(is_at(stage, "host").await);
    });
}

#[test]
fn configurations_are_polled_without_permission_to_watch() {
    sandboxed(async |stage| {
        for verb in [Verb::List, Verb::Watch] {
            let forbidden = Fault::error(403).verb(verb).kind(KINDS[0]);
            stage.faults().inject(forbidden);
        }
        let _operator = started(stage, "host").await;
        until_at(stage, "host").await;
        let path = path(KINDS[0], &managed(stage));
        stage.api.deleted(&path).await;
        stage.pass(61.0).await;
        assert!(is_at(stage, "host").await);
        stage.pass(3_600.0).await;
        let warnings = logged(
            stage,
            Level::WARN,
            "cannot be watched, and is read every 60 seconds",
        );
        assert_eq!(warnings, 1);
        let reads = stage.writes_to(&managed(stage)).into_iter();
        let reads = reads.filter(|call| call.body == json!({})).count();
        assert!((55..=65).contains(&reads), "{reads}");
    });
}

#[test]
fn killed_owner_is_replaced_by_its_peer() {
    sandboxed(async |stage| {
        stage.define_peerings().await;
        stage.create_peering("default").await;
        let _low = started_peer(stage, "low", 1).await;
        until_at(stage, "low").await;
        let high = started_peer(stage, "high", 2).await;
        until_at(stage, "high").await;
        high.kill().await;
        stage.pass(10.0).await;
        assert!(is_at(stage, "high").await, "it may still be running");
        stage.pass(120.0).await;
        assert!(is_at(stage, "low").await);
    });
}

#[test]
fn paused_operators_do_not_take_over() {
    sandboxed(async |stage| {
        stage.define_peerings().await;
        stage.create_peering("default").await;
        let high = started_peer(stage, "high", 2).await;
        until_at(stage, "high").await;
        let _low = started_peer(stage, "low", 1).await;
        stage.pass(60.0).await;
        assert!(is_at(stage, "high").await, "the newer operator is paused");
        let path = path(KINDS[0], &managed(stage));
        stage.api.deleted(&path).await;
        until_at(stage, "high").await;
        high.stop().await;
        until_at(stage, "low").await;
    });
}

#[test]
fn owners_of_earlier_versions_are_replaced() {
    everywhere(async |stage| {
        let name = managed(stage);
        for kind in KINDS {
            let collection = path(kind, "");
            let kind = match kind {
                "validatingwebhookconfigurations" => "ValidatingWebhookConfiguration",
                _ => "MutatingWebhookConfiguration",
            };
            let object = json!({
                "apiVersion": "admissionregistration.k8s.io/v1",
                "kind": kind,
                "metadata": {
                    "name": name,
                    "annotations": {"kopf.dev/admission-owner": "someone@somewhere/2099/abc"},
                },
            });
            let collection = collection.trim_end_matches('/');
            stage.api.created(collection, &object).await;
        }
        let _operator = started(stage, "host").await;
        until_at(stage, "host").await;
        let annotations = configuration(stage, KINDS[0]).await["metadata"]["annotations"].take();
        let owner: Value =
            serde_json::from_str(annotations["kopf.dev/admission-owner"].as_str().unwrap())
                .unwrap();
        assert!(owner["identity"].is_string() && owner["started"].is_string());
    });
}

#[test]
fn exiting_replica_hands_its_webhooks_over_to_another_one() {
    sandboxed(async |stage| {
        let first = started_replica(stage, "first").await;
        until_at(stage, "first").await;
        let second = started_replica(stage, "second").await;
        until_at(stage, "second").await;
        stage.settled().await;
        let before = written_webhooks(stage).len();
        second.stop().await;
        assert!(
            is_at(stage, "first").await,
            "it is taken over before the exit"
        );
        let written = written_webhooks(stage).split_off(before);
        // Every state of the object has webhooks with a client config, since every write has.
        for webhooks in &written {
            let url = &webhooks[0]["clientConfig"]["url"];
            assert!(url.is_string(), "{written:?}");
        }
        // The last replica removes its webhooks.
        first.stop().await;
        let left = configuration(stage, KINDS[0]).await;
        assert_eq!(left["webhooks"].as_array().map(Vec::len), None);
        assert_eq!(left["metadata"]["annotations"], Value::Null);
    });
}

#[test]
fn killed_owner_is_replaced_by_another_replica() {
    sandboxed(async |stage| {
        let _first = started_replica(stage, "first").await;
        let second = started_replica(stage, "second").await;
        until_at(stage, "second").await;
        stage.pass(5.0).await;
        second.kill().await;
        stage.pass(10.0).await;
        assert!(is_at(stage, "second").await, "it may still be running");
        stage.pass(15.0).await;
        assert!(is_at(stage, "first").await);
    });
}

#[test]
fn last_replica_does_not_wait_for_others() {
    sandboxed(async |stage| {
        let first = started_replica(stage, "first").await;
        let second = started_replica(stage, "second").await;
        until_at(stage, "second").await;
        first.stop().await;
        stage.pass(5.0).await;
        second.stop().await;
        let offers = stage.writes_to(&managed(stage)).into_iter();
        let offers = offers.filter(|call| call.body.to_string().contains("leaving"));
        assert_eq!(offers.count(), 0, "the webhooks are not offered to others");
        let left = configuration(stage, KINDS[0]).await;
        assert_eq!(left["webhooks"].as_array().map(Vec::len), None);
    });
}

#[test]
fn replicas_that_exit_together_remove_their_webhooks() {
    sandboxed(async |stage| {
        let first = started_replica(stage, "first").await;
        let second = started_replica(stage, "second").await;
        until_at(stage, "second").await;
        stage.settled().await;
        tokio::join!(first.stop(), second.stop());
        let left = configuration(stage, KINDS[0]).await;
        assert_eq!(left["webhooks"].as_array().map(Vec::len), None);
    });
}

#[test]
fn webhooks_of_a_replica_that_is_killed_while_it_exits_are_taken_over() {
    sandboxed(async |stage| {
        let _first = started_replica(stage, "first").await;
        let _second = started_replica(stage, "second").await;
        until_at(stage, "second").await;
        let path = path(KINDS[0], &managed(stage));
        let annotations = configuration(stage, KINDS[0]).await["metadata"]["annotations"].take();
        let owner = annotations["kopf.dev/admission-owner"].as_str().unwrap();
        let mut leaving: Value = serde_json::from_str(owner).unwrap();
        leaving["leaving"] = json!(true);
        leaving["started"] = json!("2099-01-01T00:00:00.000000+00:00");
        let leaving = leaving.to_string();
        let patch = json!({"metadata": {"annotations": {"kopf.dev/admission-owner": leaving}}});
        stage.api.merge(&path, &patch).await.expect_code(200);
        stage.settled().await;
        let annotations = configuration(stage, KINDS[0]).await["metadata"]["annotations"].take();
        assert_ne!(annotations["kopf.dev/admission-owner"], leaving);
        assert!(is_at(stage, "second").await, "the newest one takes over");
    });
}
