//! Finalizers and deletion handlers.

use serde_json::json;

use crate::front::{done, on, permanent, temporary};
use crate::stage::{
    FINALIZER, everywhere, finalizers, last_handled, own_annotations, progress, sandboxed,
};

#[test]
fn finalizer_is_added_before_handlers_are_called() {
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
fn deletion_waits_for_its_handlers() {
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
fn permanently_failed_deletion_handler_releases_the_object() {
    everywhere(async |stage| {
        let unmake = on::delete("deleted").does(|_| async { permanent("never") });
        let _operator = stage.run([unmake]).await;
        stage.create_handled("obj", json!({})).await;
        stage.delete_and_wait("obj").await;
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
fn foreign_finalizers_are_kept() {
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
fn optional_deletion_handlers_add_no_finalizer() {
    everywhere(async |stage| {
        let _operator = stage
            .run([on::create("created"), on::optional_delete("deleted")])
            .await;
        let object = stage.create_handled("obj", json!({})).await;
        assert_eq!(finalizers(&object), [""; 0]);
        stage.delete_and_wait("obj").await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["created"]);
    });
}

#[test]
fn optional_deletion_handlers_are_called_if_another_finalizer_exists() {
    everywhere(async |stage| {
        let _operator = stage
            .run([on::delete("required"), on::optional_delete("optional")])
            .await;
        stage.create_handled("obj", json!({})).await;
        stage.delete_and_wait("obj").await;
        assert_eq!(stage.journal.ids(), ["required", "optional"]);
    });
}

#[test]
fn unneeded_finalizer_is_removed_before_handlers_are_called() {
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
fn finalizer_is_not_added_to_objects_in_deletion() {
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
            .wait_for("the deletion to be logged", || {
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
fn finalizer_name_is_configurable() {
    everywhere(async |stage| {
        let setup = stage.operator([on::delete("deleted")]);
        let _operator = setup
            .settings(|settings| settings.persistence.finalizer = "example.com/mine".into())
            .start()
            .await;
        let object = stage.create_handled("obj", json!({})).await;
        assert_eq!(finalizers(&object), ["example.com/mine"]);
        stage.delete_and_wait("obj").await;
        assert_eq!(stage.journal.ids(), ["deleted"]);
    });
}

#[test]
fn deletion_updates_the_diff_base_if_the_object_remains() {
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
fn unneeded_finalizer_is_removed_during_deletion() {
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
fn deletion_during_a_handler_is_handled_after_it() {
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
