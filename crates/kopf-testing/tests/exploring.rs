//! Explorations in virtual time.

#![allow(clippy::unwrap_used)] // also in what is around the tests

use std::time::Duration;

use kopf::k8s_openapi::api::core::v1::ConfigMap;
use kopf::kube::Api;
use kopf::kube::api::{Patch, PatchParams, PostParams};
use kopf::prelude::*;
use kopf::{Body, OperatorBuilder};
use kopf_testing::explore::deviation::Family;
use kopf_testing::explore::outcome::Outcome;
use kopf_testing::explore::report::{journal_lines, lines_of, summary};
use kopf_testing::explore::scenario::{self, Scenario};
use kopf_testing::{Lab, Manifest, manifest};

fn crd() -> Manifest {
    manifest!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "shops.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"kind": "Shop", "plural": "shops", "singular": "shop"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

fn steps() -> Scenario {
    let text = "
steps:
- apply: {apiVersion: example.com/v1, kind: Shop, metadata: {name: corner}, spec: {size: 1}}
- delete: {apiVersion: example.com/v1, kind: Shop, name: corner}
";
    scenario::parse("steps", text).unwrap()
}

async fn create(body: &Body, maps: &Api<ConfigMap>, is_fixed: bool) -> kopf::Result<String> {
    let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"size": "1"}});
    if is_fixed {
        map["metadata"] = json!({"name": "corner-map"});
    } else {
        map["metadata"] = json!({"generateName": "corner-"});
    }
    kopf::append_owner_reference(body, &mut map)?;
    let map: ConfigMap = kopf::serde_json::from_value(map)?;
    match maps.create(&PostParams::default(), &map).await {
        Err(kopf::kube::Error::Api(status)) if status.reason == "AlreadyExists" => {
            Ok("corner-map".to_owned())
        }
        created => Ok(created?.metadata.name.unwrap_or_default()),
    }
}

/// Bug: a crash after the creation leads to a second one.
async fn open(body: Body, maps: Api<ConfigMap>) -> kopf::Result<String> {
    create(&body, &maps, false).await
}

async fn reopen(body: Body, maps: Api<ConfigMap>) -> kopf::Result<String> {
    create(&body, &maps, true).await
}

fn lab(has_bug: bool) -> kopf_testing::Builder {
    let builder = Operator::builder();
    let builder = if has_bug {
        builder.handler(on::create("shops", open).id("open"))
    } else {
        builder.handler(on::create("shops", reopen).id("open"))
    };
    Lab::new().with(crd()).operator(builder.build().unwrap())
}

/// Copies the size of a shop, and ignores errors if told so.
async fn copy(body: &Body, maps: &Api<ConfigMap>, is_careless: bool) -> kopf::Result<()> {
    let size = body["spec"]["size"].to_string();
    let mut map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "corner-map"},
        "data": {"size": size},
    });
    kopf::append_owner_reference(body, &mut map)?;
    let parameters = PatchParams::apply("shops").force();
    let applied = maps
        .patch("corner-map", &parameters, &Patch::Apply(&map))
        .await;
    if !is_careless {
        applied?;
    }
    Ok(())
}

async fn copy_with_care(body: Body, maps: Api<ConfigMap>) -> kopf::Result<()> {
    copy(&body, &maps, false).await
}

async fn copy_carelessly(body: Body, maps: Api<ConfigMap>) -> kopf::Result<()> {
    copy(&body, &maps, true).await
}

/// Finds the bug of the first operator by one family, and nothing in the second one.
async fn found(bug: OperatorBuilder, twin: OperatorBuilder, family: Family) {
    let explored = async |builder: OperatorBuilder| {
        let lab = Lab::new().with(crd()).operator(builder.build().unwrap());
        lab.explore(steps()).only([family]).run().await.unwrap()
    };
    assert!(!explored(bug).await.findings.is_empty());
    let twin = explored(twin).await;
    assert!(twin.findings.is_empty(), "{}", text(&twin));
    assert!(twin.done > twin.not_reached + twin.not_admitted);
}

#[tokio::test(start_paused = true)]
async fn error_that_is_ignored() {
    let bug = Operator::builder().handler(on::create("shops", copy_carelessly).id("copy"));
    let twin = Operator::builder().handler(on::create("shops", copy_with_care).id("copy"));
    found(bug, twin, Family::Reject).await;
}

#[tokio::test(start_paused = true)]
async fn change_that_is_not_handled() {
    let bug = Operator::builder().handler(on::create("shops", copy_with_care).id("copy"));
    let twin = Operator::builder()
        .handler(on::create("shops", copy_with_care).id("copy"))
        .handler(on::update("shops", copy_with_care).id("change"));
    found(bug, twin, Family::Respec).await;
}

fn text(outcome: &Outcome) -> String {
    let lines = outcome.findings.iter().flat_map(|finding| {
        let lines = lines_of(finding).into_iter().map(|line| line.text);
        lines.chain(journal_lines(&finding.journal))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test(start_paused = true)]
async fn seed_repeats_findings_exactly() {
    let explored = async || {
        let exploration = lab(true).seed(7).explore(steps());
        exploration.only([Family::CrashAfter]).run().await.unwrap()
    };
    let (first, second) = (explored().await, explored().await);
    assert!(
        text(&first).contains("configmaps/corner-* exists, but should not"),
        "{}",
        text(&first)
    );
    assert_eq!(text(&first), text(&second));
}

#[tokio::test(start_paused = true)]
async fn operator_without_a_bug_passes() {
    let exploration = lab(false).explore(steps());
    let outcome = exploration.run().await.unwrap();
    let lines: Vec<String> = summary(&outcome)
        .into_iter()
        .map(|line| line.text)
        .collect();
    assert!(
        outcome.findings.is_empty(),
        "{}\n{}",
        text(&outcome),
        lines.join("\n")
    );
    assert!(outcome.failed.is_empty(), "{lines:?}");
    assert!(outcome.done > 20, "{lines:?}");
    assert!(
        outcome.elapsed > Duration::from_secs(60),
        "time is virtual: {lines:?}"
    );
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "exists, but should not")]
async fn findings_fail_the_test() {
    let exploration = lab(true).explore(steps());
    exploration.only([Family::CrashAfter]).passes().await;
}

/// Works longer than the time after which an operator counts as settled.
async fn open_late(body: Body, maps: Api<ConfigMap>) -> kopf::Result<String> {
    tokio::time::sleep(Duration::from_millis(4500)).await;
    create(&body, &maps, true).await
}

#[tokio::test(start_paused = true)]
async fn late_work_is_noticed_in_undisturbed_runs() {
    let operator = Operator::builder().handler(on::create("shops", open_late).id("open"));
    let lab = Lab::new().with(crd()).operator(operator.build().unwrap());
    let explored = lab.explore(steps()).only([Family::Slow]).run().await;
    let error = explored.unwrap_err().to_string();
    assert!(error.contains("is not deterministic"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn next_step_is_not_done_before_its_object_exists() {
    let text = "
steps:
- apply: {apiVersion: example.com/v1, kind: Shop, metadata: {name: corner}, spec: {size: 1}}
- patch: {apiVersion: v1, kind: ConfigMap, name: corner-map, merge: {data: {more: 'yes'}}}
";
    let exploration = lab(false).explore(scenario::parse("steps", text).unwrap());
    let outcome = exploration.only([Family::Interfere]).run().await.unwrap();
    let complaints = outcome.findings.iter().flat_map(|one| &one.complaints);
    let unstable = outcome.unstable.iter().flat_map(|one| &one.complaints);
    for complaint in complaints.chain(unstable) {
        assert!(!complaint.summary.contains("failed"), "{complaint:?}");
    }
    assert!(
        outcome.not_reached > 0,
        "the creation comes before the object"
    );
}

#[tokio::test(start_paused = true)]
async fn reductions_end_with_the_time() {
    let text = "
steps:
- apply: {apiVersion: v1, kind: Secret, metadata: {name: other}}
- apply: {apiVersion: example.com/v1, kind: Shop, metadata: {name: corner}, spec: {size: 1}}
";
    let time = Duration::from_secs(1500);
    let exploration = lab(true).explore(scenario::parse("steps", text).unwrap());
    let exploration = exploration.only([Family::CrashAfter]);
    let outcome = exploration.settings(|settings| {
        settings.time = Some(time);
        settings.fail_fast = true;
    });
    let outcome = outcome.run().await.unwrap();
    assert_eq!(outcome.findings.len(), 1, "{}", self::text(&outcome));
    assert!(
        outcome.elapsed < time + Duration::from_secs(100),
        "{:?}",
        outcome.elapsed
    );
}
