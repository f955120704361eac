use serde_json::json;

use crate::stage::Stage;

/// The test of the example itself, with virtual time, is `tests/testing.rs`.
#[tokio::test]
async fn tested_operator_runs_as_a_program() {
    let stage = Stage::start().await;
    let mut program = stage.run("09-testing");
    stage
        .create_changed(|object| object["spec"] = json!({"greet": "world"}))
        .await;
    program
        .await_log("Creation is processed: 1 succeeded; 0 failed.")
        .await;
    let result = stage.result("greet").await;
    assert_eq!(result, json!({"message": "Hello, world!", "attempts": 1}));
    program.stop().await;
}
