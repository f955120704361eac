//! Blocking the deletion for as long as it takes (§7).

use serde_json::json;

use crate::front::{done, on, permanent, temporary};
use crate::stage::{
    FINALIZER, everywhere, finalizers, last_handled, own_annotations, progress, sandboxed,
};

#[test]
fn objects_with_deletion_handlers_are_blocked_before_anything_else() {
    everywhere(async |stage| {
        let _operator = stage
            .run([on::create("created"), on::delete("deleted")])
            .await;
        let object = stage.create_handled("obj", json!({})).await;
        assert_eq!(finalizers(&object), [FINALIZER]);
        assert_eq!(stage.journal.only("created").writes_before, 1);
        let first = &stage.writes()[0];
        assert_eq!(first.content_type, "application/json-patch+json");
        assert_eq!(
            first.body[1],
            json!({"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]})
        );
    });
}

#[test]
fn a_deleted_object_waits_for_its_handlers() {
    sandboxed(async |stage| {
        let unmake = on::delete("deleted").does(|call| async move {
            if call.retry < 2 {
                return temporary("not yet", 30.0);
            }
            done()
        });
        let _operator = stage.run([unmake]).await;
        stage.create_settled("obj", json!({})).await;
        stage.delete("obj").await;
        stage.settled().await;
        assert_eq!(finalizers(&stage.get("obj").await), [FINALIZER]);
        stage.pass(31.0).await;
        let object = stage.get("obj").await;
        assert_eq!(progress(&object, "deleted")["retries"], 2);
        stage.pass(31.0).await;
        assert!(stage.get("obj").await.is_null());
        assert_eq!(stage.journal.count("deleted"), 3);
    });
}

#[test]
fn a_failed_deletion_handler_is_over_too() {
    everywhere(async |stage| {
        let unmake = on::delete("deleted").does(|_| async { permanent("never") });
        let _operator = stage.run([unmake]).await;
        stage.create_handled("obj", json!({})).await;
        stage.delete_wholly("obj").await;
        assert_eq!(stage.journal.count("deleted"), 1);
        assert!(
            stage
                .log
                .has("obj", "Handler 'deleted' failed permanently: never")
        );
        assert!(
            stage
                .log
                .has("obj", "Deletion is processed: 0 succeeded; 1 failed.")
        );
    });
}

#[test]
fn finalizers_of_others_are_left_alone() {
    everywhere(async |stage| {
        let _operator = stage.run([on::delete("deleted")]).await;
        let metadata = json!({"finalizers": ["example.com/a", "example.com/b"]});
        stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        let object = stage.until_handled("obj").await;
        assert_eq!(
            finalizers(&object),
            ["example.com/a", "example.com/b", FINALIZER]
        );
        stage.delete("obj").await;
        let object = stage
            .until("obj", "released", |object| finalizers(object).len() == 2)
            .await;
        assert_eq!(finalizers(&object), ["example.com/a", "example.com/b"]);
        stage.settled().await;
        assert_eq!(stage.journal.count("deleted"), 1);
    });
}

#[test]
fn optional_deletion_handlers_do_not_block() {
    everywhere(async |stage| {
        let _operator = stage
            .run([on::create("created"), on::optional_delete("deleted")])
            .await;
        let object = stage.create_handled("obj", json!({})).await;
        assert_eq!(finalizers(&object), [""; 0]);
        stage.delete_wholly("obj").await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["created"]);
    });
}

#[test]
fn optional_deletion_handlers_are_called_if_something_else_blocks() {
    everywhere(async |stage| {
        let _operator = stage
            .run([on::delete("required"), on::optional_delete("optional")])
            .await;
        stage.create_handled("obj", json!({})).await;
        stage.delete_wholly("obj").await;
        assert_eq!(stage.journal.ids(), ["required", "optional"]);
    });
}

#[test]
fn a_finalizer_that_nobody_needs_any_more_is_removed_before_anything_else() {
    everywhere(async |stage| {
        let metadata = json!({"finalizers": ["example.com/a", FINALIZER]});
        stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        let _operator = stage.run([on::create("created")]).await;
        let object = stage.until_handled("obj").await;
        assert_eq!(finalizers(&object), ["example.com/a"]);
        assert_eq!(stage.journal.only("created").writes_before, 1);
        let text = "Removing the finalizer, as there are no handlers requiring it.";
        assert_eq!(stage.log.count("obj", text), 1);
    });
}

#[test]
fn an_object_that_is_deleted_already_is_not_blocked_any_more() {
    everywhere(async |stage| {
        let metadata = json!({"finalizers": ["example.com/a"]});
        stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        stage.delete("obj").await;
        let _operator = stage
            .run([on::create("created"), on::delete("deleted")])
            .await;
        stage
            .until_so("the object to be noticed", || {
                stage.log.has(
                    "obj",
                    "Deletion, but we are done with it, and we do not care.",
                )
            })
            .await;
        stage.settled().await;
        assert_eq!(stage.writes(), []);
        assert_eq!(stage.journal.ids(), [""; 0]);
    });
}

#[test]
fn the_finalizer_can_have_another_name() {
    everywhere(async |stage| {
        let setup = stage.operator([on::delete("deleted")]);
        let _operator = setup
            .settings(|settings| settings.persistence.finalizer = "example.com/mine".into())
            .start()
            .await;
        let object = stage.create_handled("obj", json!({})).await;
        assert_eq!(finalizers(&object), ["example.com/mine"]);
        stage.delete_wholly("obj").await;
        assert_eq!(stage.journal.ids(), ["deleted"]);
    });
}

#[test]
fn what_changed_before_the_deletion_is_remembered_while_the_object_is_still_there() {
    everywhere(async |stage| {
        let operator = stage
            .run([on::update("updated"), on::delete("deleted")])
            .await;
        let metadata = json!({"finalizers": ["example.com/other"]});
        stage
            .create_with("obj", json!({"metadata": metadata, "spec": {"field": 1}}))
            .await;
        stage.until_handled("obj").await;
        operator.stop().await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.delete("obj").await;
        operator.start().await;
        let object = stage
            .until("obj", "released", |object| {
                !finalizers(object).contains(&FINALIZER)
            })
            .await;
        assert_eq!(last_handled(&object), json!({"spec": {"field": 2}}));
        assert_eq!(own_annotations(&object).len(), 1);
        assert_eq!(stage.journal.ids(), ["deleted"]);
    });
}

#[test]
fn an_object_in_deletion_is_released_if_nobody_needs_it_any_more() {
    everywhere(async |stage| {
        let metadata = json!({"finalizers": [FINALIZER]});
        stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        stage.delete("obj").await;
        let _operator = stage.run([on::create("created")]).await;
        stage.until_gone("obj").await;
        assert_eq!(stage.journal.ids(), [""; 0]);
    });
}

#[test]
fn a_deletion_in_the_middle_of_a_handler_comes_after_it() {
    sandboxed(async |stage| {
        let make = on::create("created").does(|_| async {
            tokio::time::sleep(std::time::Duration::from_secs(10)).await;
            done()
        });
        let _operator = stage.run([make, on::delete("deleted")]).await;
        stage.create("obj", json!({})).await;
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        stage.delete("obj").await;
        stage.pass(60.0).await;
        assert!(stage.get("obj").await.is_null());
        assert_eq!(stage.journal.ids(), ["created", "deleted"]);
    });
}
