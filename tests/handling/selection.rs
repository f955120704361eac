//! Handlers called for a cause, and their order.

use kopf_core::cause::Reason;
use kopf_core::lifecycle::AllAtOnce;
use serde_json::json;

use crate::front::{Declaration, on};
use crate::stage::{everywhere, last_handled};

#[test]
fn handlers_are_called_in_the_order_of_registration() {
    everywhere(async |stage| {
        let handlers = ["c", "a", "b"].map(on::create);
        let _operator = stage.operator(handlers).lifecycle(AllAtOnce).start().await;
        stage.create_handled("obj", json!({})).await;
        assert_eq!(stage.journal.ids(), ["c", "a", "b"]);
    });
}

#[test]
fn function_is_called_once_per_id() {
    everywhere(async |stage| {
        let both = on::create("both");
        let handlers = [
            both.also(on::resume("both")),
            both.clone(),
            both.also(on::field("both", "spec.field")),
            both.also(on::create("both").field("spec.field")),
            both.also(on::create("other")),
        ];
        let operator = stage.operator(handlers).lifecycle(AllAtOnce).start().await;
        stage.create_handled("obj", json!({"field": 1})).await;
        assert_eq!(stage.journal.ids(), ["both", "both/spec.field", "other"]);

        stage.settled().await;
        stage.journal.clear();
        operator.restart().await;
        stage
            .wait_for("resuming", || !stage.journal.ids().is_empty())
            .await;
        stage.settled().await;
        assert_eq!(stage.journal.reasons(), [("both".to_owned(), "resume")]);
    });
}

#[test]
fn field_handler_is_called_for_creation_and_update() {
    everywhere(async |stage| {
        let _operator = stage
            .run([on::field("watched", "spec.field"), on::delete("deleted")])
            .await;
        stage.create_handled("without", json!({"other": 1})).await;
        stage.create_handled("with", json!({"field": 1})).await;
        stage.settled().await;
        let id = "watched/spec.field";
        let created = stage.journal.only(id);
        assert_eq!(
            (&*created.object, created.reason),
            ("with", Some(Reason::Create))
        );
        assert_eq!((created.old, created.new), (json!(null), json!(1)));

        stage.merge("with", json!({"spec": {"other": 2}})).await;
        stage.until_handled("with").await;
        assert_eq!(stage.journal.count(id), 1, "another field changed");
        stage.merge("with", json!({"spec": {"field": null}})).await;
        stage.until_settled("with").await;
        let changed = stage.journal.of(id).pop().unwrap();
        assert_eq!(changed.reason, Some(Reason::Update));
        assert_eq!((changed.old, changed.new), (json!(1), json!(null)));
        assert_eq!(changed.diff, json!([["remove", [], 1, null]]));
    });
}

#[test]
fn field_handler_sees_a_change_that_arrives_with_the_deletion() {
    everywhere(async |stage| {
        let operator = stage
            .run([on::field("watched", "spec.field"), on::delete("deleted")])
            .await;
        stage.create_handled("obj", json!({"field": 1})).await;
        stage.settled().await;
        operator.stop().await;
        stage.journal.clear();
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.delete("obj").await;
        operator.start().await;
        stage.until_gone("obj").await;
        let mut calls = stage.journal.reasons();
        calls.sort();
        let expected = [("deleted", "delete"), ("watched/spec.field", "delete")];
        assert_eq!(calls, expected.map(|(id, reason)| (id.to_owned(), reason)));
    });
}

#[test]
fn handlers_with_a_field_receive_only_its_values() {
    everywhere(async |stage| {
        let seen = |handler: Declaration| handler.field("spec.deep");
        let handlers = [
            seen(on::create("created")),
            seen(on::update("updated")),
            seen(on::delete("deleted")),
        ];
        let _operator = stage.run(handlers).await;
        stage
            .create_handled("obj", json!({"deep": {"x": 1}, "other": 1}))
            .await;
        stage
            .merge("obj", json!({"spec": {"deep": {"x": 2}, "other": 2}}))
            .await;
        stage.until_settled("obj").await;
        stage.delete_and_wait("obj").await;

        let entry = stage.journal.only("created/spec.deep");
        assert_eq!((entry.old, entry.new), (json!(null), json!({"x": 1})));
        assert_eq!(entry.diff, json!([["add", [], null, {"x": 1}]]));
        assert_eq!(entry.body["spec"]["other"], 1, "the body is complete");
        let entry = stage.journal.only("updated/spec.deep");
        assert_eq!((entry.old, entry.new), (json!({"x": 1}), json!({"x": 2})));
        assert_eq!(entry.diff, json!([["change", ["x"], 1, 2]]));
        let entry = stage.journal.only("deleted/spec.deep");
        assert_eq!((entry.old, entry.new), (json!({"x": 2}), json!({"x": 2})));
        assert_eq!(entry.diff, json!([]));
    });
}

#[test]
fn cause_without_handlers_updates_the_diff_base() {
    everywhere(async |stage| {
        let _operator = stage.run([on::update("updated")]).await;
        let object = stage.create_handled("obj", json!({"field": 1})).await;
        stage.settled().await;
        assert_eq!(last_handled(&object), json!({"spec": {"field": 1}}));
        assert_eq!(stage.journal.ids(), [""; 0]);
        assert_eq!(stage.writes().len(), 1);
    });
}

#[test]
fn handlers_receive_their_param() {
    everywhere(async |stage| {
        let make = on::create("make")
            .param("the param")
            .does(|call| async move {
                let param = call
                    .param
                    .as_ref()
                    .and_then(|param| param.downcast_ref::<&str>());
                crate::front::gives(json!(param))
            });
        let _operator = stage.run([make]).await;
        stage.create("obj", json!({})).await;
        let object = stage
            .until("obj", "handled", |object| object["status"].is_object())
            .await;
        assert_eq!(object["status"]["make"], "the param");
    });
}
