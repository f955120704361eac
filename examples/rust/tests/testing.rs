//! A test of an operator on a sandbox in the same process, with virtual time.

use kopf_examples::greeter;
use kopf_testing::{Lab, manifest};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn greeting_is_stored_when_the_name_is_set() {
    let lab = Lab::new()
        .with(include_str!("../../crd.yaml"))
        .operator(greeter::operator().build().unwrap())
        .start()
        .await;

    let object = lab
        .apply(manifest!({
            "apiVersion": "kopf.dev/v1", "kind": "KopfExample",
            "metadata": {"name": "example"}, "spec": {},
        }))
        .await;
    lab.settled().await;
    let status = &lab.get(&object).await["status"];
    assert_eq!(status["greet"], json!(null), "there is no name");

    lab.patch(&object, json!({"spec": {"greet": "world"}}))
        .await;
    lab.advance(60 * 60).await; // Virtual time: returns immediately.
    lab.settled().await;
    let status = &lab.get(&object).await["status"];
    assert_eq!(
        status["greet"],
        json!({"message": "Hello, world!", "attempts": 2})
    );
    lab.finish().await;
}

#[tokio::test(start_paused = true)]
async fn handling_continues_after_a_restart() {
    let lab = Lab::new()
        .with(include_str!("../../crd.yaml"))
        .operator(greeter::operator().build().unwrap())
        .start()
        .await;
    let object = lab.apply(include_str!("../../obj.yaml")).await;
    lab.settled().await;

    lab.restart_operator().await;
    lab.faults().kill_watches();
    lab.patch(&object, json!({"spec": {"greet": "again"}}))
        .await;
    lab.advance(60 * 60).await;
    lab.settled().await;
    assert_eq!(
        lab.get(&object).await["status"]["greet"]["message"],
        "Hello, again!"
    );
    lab.finish().await;
}
