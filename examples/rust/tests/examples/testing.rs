use serde_json::json;

use crate::stage::Stage;

/// Its own test has virtual time, and is beside this one.
#[tokio::test]
async fn what_is_tested_is_also_a_program() {
    let stage = Stage::start().await;
    let mut program = stage.run("09-testing");
    stage
        .create_changed(|object| object["spec"] = json!({"greet": "world"}))
        .await;
    program
        .says("Creation is processed: 1 succeeded; 0 failed.")
        .await;
    let result = stage.result("greet").await;
    assert_eq!(result, json!({"message": "Hello, world!", "attempts": 1}));
    program.stop().await;
    stage.finish().await;
}
