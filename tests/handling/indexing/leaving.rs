//! When entries go without a word of the object.

use kopf_sandbox::fault::Fault;
use serde_json::json;

use super::by_key;
use crate::front::on;
use crate::stage::sandboxed;

#[test]
fn objects_that_vanish_unseen_are_removed_with_the_next_listing() {
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
fn everything_is_indexed_anew_after_a_restart() {
    sandboxed(async |stage| {
        let operator = stage.run([by_key("keys"), on::create("made")]).await;
        stage.create("a", json!({"key": "one"})).await;
        stage.create_settled("b", json!({"key": "one"})).await;
        operator.stop().await;
        assert_eq!(
            stage.index("keys"),
            json!({"one": ["a", "b"]}),
            "for the last handlers"
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
fn a_kind_that_is_gone_leaves_nothing_behind() {
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
