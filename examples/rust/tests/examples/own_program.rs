use serde_json::json;

use crate::program::Program;
use crate::stage::{Stage, only};

const CRD: &str = include_str!("../../own-program/crd.yaml");

#[tokio::test]
async fn own_commands_and_options_work_beside_those_of_operators() {
    let start = |arguments: &[&str]| Program::start("own-program", arguments, &[]);
    let greeting = start(&["greet", "world"]).end().await;
    assert_eq!(greeting, "Hello, world!\n");
    let greeting = start(&["--greeting", "Hi", "greet", "world"]).end().await;
    assert_eq!(greeting, "Hi, world!\n");
    let version = format!("own-program {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(start(&["--version"]).end().await, version);
    assert_eq!(start(&["crd"]).end().await, CRD);
    let help = start(&["--help"]).end().await;
    assert!(
        help.contains("greet ") && help.contains("manifests "),
        "{help}"
    );
}

#[tokio::test]
async fn options_reach_handlers_through_the_state() {
    let stage = Stage::start_with(&[only(CRD)]).await;
    let program = stage.run_with("own-program", &["--greeting", "Hi"], &[]);
    let mut object = only(include_str!("../../own-program/obj.yaml"));
    object["metadata"]["namespace"] = json!(stage.api.namespace());
    let path = stage.api.group_path("kopf.dev/v1", "greetings");
    stage.api.created(&path, &object).await;
    let path = format!("{path}/example");
    let is_greeted = |object: &serde_json::Value| object["status"]["message"] == "Hi, world!";
    stage.until(&path, "greeted", is_greeted).await;
    stage.api.delete(&path).await.ok();
    stage.gone(&path).await;
    program.stop().await;
}
