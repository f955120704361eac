use kopf_testing::Manifest;
use kopf_tests::eventually;
use serde_json::{Value, json};

use crate::program::Program;
use crate::stage::{Stage, only};

/// Starts a server with the CRDs of peerings and a peering in the namespace of the test. A
/// cluster-wide peering would affect other tests.
async fn start() -> Stage {
    let kinds = Manifest::from(include_str!(
        "../../../../crates/kopf-shipping/manifests/peering.yaml"
    ));
    let mut crds = vec![only(include_str!("../../../crd.yaml"))];
    let is_crd = |object: &&Value| object["kind"] == "CustomResourceDefinition";
    crds.extend(kinds.objects().iter().filter(is_crd).cloned());
    let stage = Stage::start_with(&crds).await;
    let object = json!({"apiVersion": "kopf.dev/v1", "kind": "KopfPeering",
                        "metadata": {"name": "default"}});
    let path = stage.api.group_path("kopf.dev/v1", "kopfpeerings");
    stage.api.created(&path, &object).await;
    stage
}

async fn peers(stage: &Stage) -> Vec<String> {
    let path = stage.api.group_path("kopf.dev/v1", "kopfpeerings/default");
    let object = stage.api.found(&path).await.json;
    let peers = object["status"].as_object().cloned().unwrap_or_default();
    peers.into_iter().map(|(name, _)| name).collect()
}

fn run(stage: &Stage, name: &str, arguments: &[&str]) -> Program {
    stage.run_with("06-peering", arguments, &[("POD_ID", name)])
}

#[tokio::test]
async fn operator_with_the_higher_priority_is_active() {
    let stage = start().await;
    let mut first = run(&stage, "first", &["--priority", "5"]);
    stage.create().await;
    first
        .await_log("Handled the create with the priority 5.")
        .await;

    let mut second = run(&stage, "second", &["--dev", "--verbose"]);
    first
        .await_log("Pausing operations in favour of [<Peer second: priority=666, ")
        .await;
    second.await_log("Handling cycle is finished").await;
    assert_eq!(peers(&stage).await, ["first", "second"]);
    stage.change(json!({"field": "second"})).await;
    second
        .await_log("Handled the update with the priority 666.")
        .await;
    second.stop().await;
    first
        .await_log("Resuming operations after the pause.")
        .await;
    stage.change(json!({"field": "first"})).await;
    first
        .await_log("Handled the update with the priority 5.")
        .await;
    let log = first.stop().await;
    assert!(!log.contains("with the priority 666"), "{log}");
    assert!(peers(&stage).await.is_empty());
}

#[tokio::test]
async fn freeze_pauses_and_resume_resumes_the_operator() {
    let stage = start().await;
    let mut program = run(&stage, "operator", &[]);
    stage.create().await;
    program
        .await_log("Handled the create with the priority 0.")
        .await;
    let place = ["-n", stage.api.namespace(), "-P", "default"];
    let freeze = [&["freeze", "--lifetime", "600"][..], &place].concat();
    let mut command = stage.command("06-peering", &freeze, &[("POD_ID", "admin")]);
    command
        .await_log("Operators are frozen in the peering 'default' in 'test-")
        .await;
    program
        .await_log("Pausing operations in favour of [<Peer admin: priority=100, ")
        .await;
    let resume = [&["resume"][..], &place].concat();
    let mut command = stage.command("06-peering", &resume, &[("POD_ID", "admin")]);
    command
        .await_log("Operators are resumed in the peering 'default' in 'test-")
        .await;
    program
        .await_log("Resuming operations after the pause.")
        .await;
    eventually("the record to be removed", async || {
        (peers(&stage).await == ["operator"]).then_some(())
    })
    .await;
    program.stop().await;
}
