//! Removal of entries without an event of the object.

use kopf_sandbox::fault::Fault;
use serde_json::json;

use super::by_key;
use crate::front::on;
use crate::stage::sandboxed;

#[test]
fn entries_of_objects_missing_from_a_listing_are_removed() {
    sandboxed(async |stage| {
        let _operator = stage.run([by_key("keys"), on::create("made")]).await;
        for name in ["stays", "goes"] {
            stage.create(name, json!({"key": name})).await;
        }
        stage.settled().await;
        let faults = stage.faults();
        let dropping = faults.inject(Fault::drop_events().name("goes"));
        stage.delete("goes").await;
        stage.pass(1.0).await;
        assert!(faults.remove(dropping));
        assert_eq!(
            stage.index("keys"),
            json!({"goes": ["goes"], "stays": ["stays"]})
        );
        stage.relist();
        stage.pass(30.0).await;
        assert_eq!(stage.index("keys"), json!({"stays": ["stays"]}));
    });
}

#[test]
fn indices_are_rebuilt_after_a_restart() {
    sandboxed(async |stage| {
        let operator = stage.run([by_key("keys"), on::create("made")]).await;
        stage.create("a", json!({"key": "one"})).await;
        stage.create_settled("b", json!({"key": "one"})).await;
        operator.stop().await;
        assert_eq!(
            stage.index("keys"),
            json!({"one": ["a", "b"]}),
            "kept for cleanup handlers"
        );
        stage.delete("b").await;
        operator.start().await;
        stage.settled().await;
        assert_eq!(stage.index("keys"), json!({"one": ["a"]}));
        assert_eq!(
            stage.journal.count("made"),
            2,
            "handled objects are not handled again"
        );
    });
}

#[test]
fn entries_of_a_removed_crd_are_removed() {
    sandboxed(async |stage| {
        let _operator = stage.run([by_key("keys")]).await;
        stage.create_settled("obj", json!({"key": "one"})).await;
        assert_eq!(stage.index("keys"), json!({"one": ["obj"]}));
        let crd = format!(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{}",
            stage.api.group()
        );
        stage.api.deleted(&crd).await;
        stage.pass(60.0).await;
        assert_eq!(stage.index("keys"), json!({}));
    });
}
