use kopf_testing::Manifest;
use kopf_tests::eventually;
use serde_json::{Value, json};

use crate::program::Program;
use crate::stage::{Stage, only};

/// A server with the kinds of peering objects, too. Peerings of the whole cluster would concern all
/// tests on it, so the namespace of the test has one.
async fn start() -> Stage {
    let kinds = Manifest::from(include_str!(
        "../../../../crates/kopf-shipping/manifests/peering.yaml"
    ));
    let mut definitions = vec![only(include_str!("../../../crd.yaml"))];
    let is_definition = |object: &&Value| object["kind"] == "CustomResourceDefinition";
    definitions.extend(kinds.objects().iter().filter(is_definition).cloned());
    let stage = Stage::start_with(&definitions).await;
    let object = json!({"apiVersion": "kopf.dev/v1", "kind": "KopfPeering",
                        "metadata": {"name": "default"}});
    let path = stage.api.group_path("kopf.dev/v1", "kopfpeerings");
    stage.api.create(&path, &object).await.expect_code(201);
    stage
}

async fn peers(stage: &Stage) -> Vec<String> {
    let path = stage.api.group_path("kopf.dev/v1", "kopfpeerings/default");
    let object = stage.api.get(&path).await.expect_code(200).json;
    let peers = object["status"].as_object().cloned().unwrap_or_default();
    peers.into_iter().map(|(name, _)| name).collect()
}

fn run(stage: &Stage, name: &str, arguments: &[&str]) -> Program {
    stage.run_with("06-peering", arguments, &[("POD_ID", name)])
}

#[tokio::test]
async fn the_one_of_the_higher_priority_works() {
    let stage = start().await;
    let mut first = run(&stage, "first", &["--priority", "5"]);
    stage.create().await;
    first.says("Handled the create with the priority 5.").await;

    let mut second = run(&stage, "second", &["--dev", "--verbose"]);
    first
        .says("Pausing operations in favour of [<Peer second: priority=666, ")
        .await;
    second.says("Handling cycle is finished").await;
    assert_eq!(peers(&stage).await, ["first", "second"]);
    stage.change(json!({"field": "second"})).await;
    second
        .says("Handled the update with the priority 666.")
        .await;
    second.stop().await;
    first.says("Resuming operations after the pause.").await;
    stage.change(json!({"field": "first"})).await;
    first.says("Handled the update with the priority 5.").await;
    let log = first.stop().await;
    assert!(!log.contains("with the priority 666"), "{log}");
    assert!(peers(&stage).await.is_empty());
    stage.finish().await;
}

#[tokio::test]
async fn it_is_paused_and_resumed_by_commands() {
    let stage = start().await;
    let mut program = run(&stage, "operator", &[]);
    stage.create().await;
    program
        .says("Handled the create with the priority 0.")
        .await;
    let place = ["-n", stage.api.namespace(), "-P", "default"];
    let freeze = [&["freeze", "--lifetime", "600"][..], &place].concat();
    let mut command = stage.command("06-peering", &freeze, &[("POD_ID", "somebody")]);
    command
        .says("Operators are frozen in the peering 'default' in 'test-")
        .await;
    program
        .says("Pausing operations in favour of [<Peer somebody: priority=100, ")
        .await;
    let resume = [&["resume"][..], &place].concat();
    let mut command = stage.command("06-peering", &resume, &[("POD_ID", "somebody")]);
    command
        .says("Operators are resumed in the peering 'default' in 'test-")
        .await;
    program.says("Resuming operations after the pause.").await;
    eventually("the record to be removed", async || {
        (peers(&stage).await == ["operator"]).then_some(())
    })
    .await;
    program.stop().await;
    stage.finish().await;
}
