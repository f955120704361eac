use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn each_handler_ends_in_its_own_way() {
    let stage = Stage::start().await;
    let mut program = stage.run("03-exceptions");
    stage.create().await;
    program
        .says("Creation is processed: 2 succeeded; 3 failed.")
        .await;
    assert_eq!(stage.result("temporary").await, json!({"attempts": 4}));

    let log = program.stop().await;
    let count = |words: &str| log.matches(words).count();
    let attempts = "Handler 'temporary' failed temporarily: the data is not there yet";
    assert_eq!(count(attempts), 3, "{log}");
    let wrong = "Handler 'permanent' failed permanently: the data is wrong";
    assert_eq!(count(wrong), 1, "{log}");
    let again = "Handler 'eventual' failed with an exception and will try again in 1 seconds: ";
    assert_eq!(count(again), 2, "{log}");
    let enough = "Handler 'eventual' failed with an exception and will stop now";
    assert_eq!(count(enough), 1, "{log}");
    let ignored = "Handler 'ignored' failed with an exception and will ignore it: ";
    assert_eq!(count(ignored), 1, "{log}");
    // How often it is tried in two seconds depends on the machine.
    assert!(count("Handler 'hopeless' ") >= 1, "{log}");
    stage.finish().await;
}
