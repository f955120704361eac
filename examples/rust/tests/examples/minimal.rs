use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn the_result_of_the_handler_is_in_the_status() {
    let stage = Stage::start().await;
    let mut program = stage.run("01-minimal");
    stage.create().await;
    program
        .await_log("Creation is processed: 1 succeeded; 0 failed.")
        .await;
    let result = stage.result("create_fn").await;
    assert_eq!(result, json!({"message": "hello world"}));

    let log = program.stop().await;
    let of_object = format!("[{}/kopf-example-1] ", stage.api.namespace());
    for message in ["Creating: {", "Handler 'create_fn' succeeded."] {
        assert!(log.contains(&format!("{of_object}{message}")), "{log}");
    }
}
