//! Content of essences, and diffs between them.

use std::sync::Arc;

use kopf_core::diffbase::AnnotationsDiffBaseStorage;
use serde_json::json;

use crate::front::on;
use crate::stage::{everywhere, last_handled};

#[test]
fn diff_base_excludes_untracked_fields() {
    everywhere(async |stage| {
        let _operator = stage.run([on::create("created")]).await;
        let parts = json!({
            "metadata": {
                "labels": {"app": "web"},
                "annotations": {
                    "example.com/mine": "1",
                    "plain": "2",
                    "kubectl.kubernetes.io/last-applied-configuration": "{}",
                    "kopf.zalando.org/foreign": "3",
                    "sub.kopf.zalando.org/foreign": "4",
                    "other-op.example.com/kopf-managed": "yes",
                    "other-op.example.com/state": "5",
                },
                "finalizers": ["example.com/other"],
            },
            "spec": {"field": 1},
            "status": {"noise": 1},
        });
        stage.create_with("obj", parts).await;
        let object = stage
            .until("obj", "handled", |object| last_handled(object).is_object())
            .await;
        let expected = json!({
            "metadata": {
                "labels": {"app": "web"},
                "annotations": {"example.com/mine": "1", "plain": "2"},
            },
            "spec": {"field": 1},
        });
        assert_eq!(last_handled(&object), expected);
        assert_eq!(stage.journal.only("created").new, expected);
    });
}

#[test]
fn only_labels_and_annotations_of_the_metadata_are_tracked() {
    everywhere(async |stage| {
        let _operator = stage.run([on::update("updated")]).await;
        stage.create_handled("obj", json!({})).await;
        stage.settled().await;
        for (metadata, diff) in [
            (
                json!({"labels": {"a": "1"}}),
                json!([["add", ["metadata"], null, {"labels": {"a": "1"}}]]),
            ),
            (
                json!({"annotations": {"b": "2"}}),
                json!([["add", ["metadata", "annotations"], null, {"b": "2"}]]),
            ),
            (
                json!({"labels": {"a": "3"}}),
                json!([["change", ["metadata", "labels", "a"], "1", "3"]]),
            ),
            (
                json!({"labels": null, "annotations": {"b": null}}),
                json!([["remove", ["metadata"], {"annotations": {"b": "2"}, "labels": {"a": "3"}}, null]]),
            ),
        ] {
            stage.journal.clear();
            let before = stage.writes().len();
            stage.merge("obj", json!({"metadata": metadata})).await;
            stage
                .wait_for("the change to be handled", || stage.writes().len() > before)
                .await;
            assert_eq!(stage.journal.only("updated").diff, diff);
        }
        stage.settled().await;
        stage.journal.clear();
        let last_applied = "kubectl.kubernetes.io/last-applied-configuration";
        let metadata = json!({
            "annotations": {last_applied: "{}", "sub.kopf.zalando.org/x": "y"},
            "finalizers": ["example.com/other"],
        });
        stage.merge("obj", json!({"metadata": metadata})).await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), [""; 0]);
    });
}

#[test]
fn lists_are_compared_as_a_whole_and_null_is_absent() {
    everywhere(async |stage| {
        let _operator = stage.run([on::update("updated")]).await;
        let spec = json!({"list": [1, {"a": 1}], "deep": {"x": {"y": 1}}, "number": 1});
        stage.create_handled("obj", spec).await;
        let change = json!({"spec": {
            "list": [1, {"a": 2}], "deep": {"x": {"z": 2}, "w": {"v": 3}}, "number": 1.0,
        }});
        stage.merge("obj", change).await;
        stage.until_handled("obj").await;
        let diff = json!([
            ["add", ["spec", "deep", "w"], null, {"v": 3}],
            ["add", ["spec", "deep", "x", "z"], null, 2],
            ["change", ["spec", "list"], [1, {"a": 1}], [1, {"a": 2}]],
        ]);
        assert_eq!(stage.journal.only("updated").diff, diff);
    });
}

#[test]
fn fields_of_handlers_are_tracked_outside_the_spec() {
    everywhere(async |stage| {
        let _operator = stage.run([on::field("watched", "status.phase")]).await;
        stage.create_settled("obj", json!({"field": 1})).await;
        stage
            .merge_status("obj", json!({"status": {"phase": "up", "other": 1}}))
            .await;
        let object = stage
            .until("obj", "handled", |object| {
                last_handled(object)["status"]["phase"] == "up"
            })
            .await;
        let expected = json!({"spec": {"field": 1}, "status": {"phase": "up"}});
        assert_eq!(last_handled(&object), expected);
        stage
            .merge_status("obj", json!({"status": {"phase": "down", "other": 2}}))
            .await;
        stage
            .until("obj", "handled", |object| {
                last_handled(object)["status"]["phase"] == "down"
            })
            .await;
        let last = stage.journal.all().pop().unwrap();
        assert_eq!(last.id, "watched/status.phase");
        assert_eq!((last.old, last.new), (json!("up"), json!("down")));
        assert_eq!(last.diff, json!([["change", [], "up", "down"]]));
    });
}

#[test]
fn fields_can_be_ignored() {
    everywhere(async |stage| {
        let setup = stage.operator([on::create("created"), on::update("updated")]);
        let _operator = setup
            .settings(|settings| {
                let storage = AnnotationsDiffBaseStorage::default();
                let storage = storage.ignored_fields(["spec.replicas"]);
                settings.persistence.diffbase_storage = Arc::new(storage);
            })
            .start()
            .await;
        stage
            .create("obj", json!({"replicas": 1, "field": 1}))
            .await;
        let object = stage
            .until("obj", "handled", |object| last_handled(object).is_object())
            .await;
        assert_eq!(last_handled(&object), json!({"spec": {"field": 1}}));
        stage.merge("obj", json!({"spec": {"replicas": 2}})).await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["created"]);
        stage
            .merge("obj", json!({"spec": {"replicas": 3, "field": 2}}))
            .await;
        stage
            .until("obj", "handled", |object| {
                last_handled(object)["spec"]["field"] == 2
            })
            .await;
        assert_eq!(
            stage.journal.only("updated").diff,
            json!([["change", ["spec", "field"], 1, 2]])
        );
    });
}

#[test]
fn fields_of_handlers_are_tracked_even_if_excluded_by_default() {
    everywhere(async |stage| {
        let _operator = stage
            .run([on::field("annotated", "metadata.annotations")])
            .await;
        let foreign = "sub.kopf.zalando.org/state";
        let metadata = json!({"annotations": {foreign: "1"}});
        stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        stage
            .until("obj", "handled", |object| last_handled(object).is_object())
            .await;
        stage.settled().await;
        let id = "annotated/metadata.annotations";
        assert_eq!(stage.journal.only(id).new, json!({foreign: "1"}));
        let change = json!({"metadata": {"annotations": {foreign: "2"}}});
        stage.merge("obj", change).await;
        stage
            .wait_for("the change to be handled", || stage.journal.count(id) > 1)
            .await;
        stage.settled().await;
        let diff = stage.journal.of(id).pop().unwrap().diff;
        assert_eq!(diff, json!([["change", [foreign], "1", "2"]]));
        assert_eq!(stage.journal.count(id), 2, "own annotations are excluded");
    });
}
