use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn each_item_has_its_own_retries_and_its_own_result() {
    let stage = Stage::start().await;
    let mut program = stage.run("07-subhandlers");
    stage.create().await;
    program.await_log("Creation is processed: ").await;
    for item in ["item1", "item2"] {
        let result = stage.result(&format!("create_items/{item}")).await;
        assert_eq!(result, json!({"handled": item}));
    }

    let log = program.stop().await;
    let count = |message: &str| log.matches(message).count();
    assert_eq!(count("=== Handling item1."), 1, "{log}");
    assert_eq!(count("=== Handling item2."), 1, "{log}");
    let failed = "Handler 'create_items/item2' failed temporarily: not yet";
    assert_eq!(count(failed), 1, "{log}");
}
