use serde_json::json;

use crate::stage::Stage;

#[tokio::test]
async fn errors_are_retried_by_their_type_and_options() {
    let stage = Stage::start().await;
    let mut program = stage.run("03-exceptions");
    stage.create().await;
    program
        .await_log("Creation is processed: 2 succeeded; 3 failed.")
        .await;
    assert_eq!(stage.result("temporary").await, json!({"attempts": 4}));

    let log = program.stop().await;
    let count = |message: &str| log.matches(message).count();
    let attempts = "Handler 'temporary' failed temporarily: the data is not available yet";
    assert_eq!(count(attempts), 3, "{log}");
    let wrong = "Handler 'permanent' failed permanently: the data is invalid";
    assert_eq!(count(wrong), 1, "{log}");
    let again = "Handler 'eventual' failed with an exception and will try again in 1 seconds: ";
    assert_eq!(count(again), 2, "{log}");
    let enough = "Handler 'eventual' failed with an exception and will stop now";
    assert_eq!(count(enough), 1, "{log}");
    let ignored = "Handler 'ignored' failed with an exception and will ignore it: ";
    assert_eq!(count(ignored), 1, "{log}");
    // The number of attempts within two seconds depends on the machine.
    assert!(count("Handler 'hopeless' ") >= 1, "{log}");
}
