use kopf_tests::eventually;
use serde_json::json;

use crate::hooks::{free_port, probe};
use crate::stage::{OBJECT, Stage};

#[tokio::test]
async fn all_types_of_handlers_are_called_for_one_object() {
    let stage = Stage::start().await;
    let port = free_port();
    let address = format!("http://127.0.0.1:{port}/healthz");
    let mut program = stage.run_with("99-all-at-once", &["--liveness", &address], &[]);
    stage.create().await;
    for message in [
        "] CREATED\n",
        "] HANDLED item1\n",
        "] HANDLED item2\n",
        "] MONITORED\n",
        "] SEEN: \"value\"\n",
    ] {
        program.await_log(message).await;
    }
    let result = stage.result("create_fn").await;
    assert_eq!(result, json!({"with-this-field": 1}));
    stage
        .until(&stage.path(OBJECT), "the timer has run", |object| {
            object["status"]["noticed"] == true
        })
        .await;
    stage.handled().await;
    // Results of probes are cached.
    eventually("the object to be counted", async || {
        probe(port).filter(|results| results["objects"] == 1)
    })
    .await;
    stage.change(json!({"field": "new"})).await;
    for message in [
        "] UPDATED: (('change', ('spec', 'field'), 'value', 'new'),)\n",
        "] FIELD: \"value\" -> \"new\"\n",
        "] SEEN: \"new\"\n",
    ] {
        program.await_log(message).await;
    }
    let log = program.stop().await;
    assert!(
        log.contains("STARTED") && log.contains("CLEANED UP"),
        "{log}"
    );
    assert!(log.contains("] NOT MONITORED\n"), "{log}");

    let mut program = stage.run("99-all-at-once");
    program.await_log("] RESUMED\n").await;
    stage.delete().await;
    let log = program.stop().await;
    assert!(
        log.contains("] DELETED\n") && log.contains("] NOT MONITORED\n"),
        "{log}"
    );
}
