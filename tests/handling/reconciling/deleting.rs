//! Reconcile handlers of objects that are being deleted.

use kopf_engine::invocation::Call;
use serde_json::{Value, json};

use super::{NONE, called, failing, triggers};
use crate::front::{done, on, requeued, temporary};
use crate::owning::{create_child, delete_child};
use crate::stage::{everywhere, finalizers, own_annotations, progress, sandboxed};

#[test]
fn deletions_are_reconciled_before_the_finalizer_is_removed() {
    everywhere(async |stage| {
        let sync = on::reconcile("sync")
            .finalizer()
            .does(|call: Call| async move {
                if call.body().is_deleting() && call.retry < 1 {
                    return temporary("not yet", 0.5);
                }
                done()
            });
        let _operator = stage.run([sync]).await;
        stage.create("obj", json!({})).await;
        called(stage, 1).await;
        let object = stage.get("obj").await;
        assert_eq!(finalizers(&object).len(), 1);
        assert_eq!(own_annotations(&object), NONE);
        stage.delete_and_wait("obj").await;
        assert_eq!(triggers(stage), ["created", "deleted", "retried, deleted"]);
        for write in stage.writes_to("obj") {
            let text = write.body.to_string();
            assert!(!text.contains("last-handled"), "{text}");
        }
    });
}

#[test]
fn deletions_end_retries_and_begin_their_own() {
    sandboxed(async |stage| {
        let sync = on::reconcile("sync")
            .finalizer()
            .does(|call: Call| async move {
                if call.body().is_deleting() && call.retry > 0 {
                    return done();
                }
                temporary("not yet", 1000.0)
            });
        let operator = stage.run([sync]).await;
        stage.create("obj", json!({})).await;
        stage.pass(10.0).await;
        stage.delete("obj").await;
        stage.pass(10.0).await;
        assert_eq!(triggers(stage), ["created", "deleted"]);
        assert_eq!(stage.journal.of("sync")[1].retry, 0);
        let record = progress(&stage.get("obj").await, "sync");
        assert_eq!(
            (&record["purpose"], &record["retries"]),
            (&json!("delete"), &json!(1))
        );
        operator.restart().await;
        stage.pass(1000.0).await;
        assert_eq!(triggers(stage)[2..], ["retried, deleted"]);
        assert_eq!(stage.get("obj").await, Value::Null);
    });
}

#[test]
fn objects_without_the_finalizer_are_not_reconciled_when_deleted() {
    sandboxed(async |stage| {
        let delete = on::delete("drop").does(|call: Call| async move {
            if call.retry < 1 {
                return temporary("not yet", 50.0);
            }
            done()
        });
        let sync = failing(1, 20.0).every(10.0);
        let _operator = stage.run([sync, delete]).await;
        stage.create("obj", json!({})).await;
        stage.pass(15.0).await;
        assert_eq!(triggers(stage), ["created"]);
        stage.delete("obj").await;
        stage.pass(100.0).await;
        assert_eq!(triggers(stage), ["created"]);
        assert_eq!(stage.journal.count("drop"), 2);
        assert_eq!(stage.get("obj").await, Value::Null);
    });
}

#[test]
fn requests_delay_the_end_of_a_deletion() {
    sandboxed(async |stage| {
        let sync = on::reconcile("sync")
            .finalizer()
            .does(|call: Call| async move {
                if call.body().is_deleting() && call.retry < 3 {
                    return requeued(&call, 100.0);
                }
                done()
            });
        let operator = stage.run([sync]).await;
        stage.create("obj", json!({})).await;
        stage.pass(10.0).await;
        stage.delete("obj").await;
        stage.pass(150.0).await;
        let expected = ["created", "deleted", "requeued, deleted"];
        assert_eq!(triggers(stage), expected);
        operator.restart().await;
        stage.pass(100.0).await;
        assert_eq!(triggers(stage)[3..], ["requeued, deleted"]);
        assert_eq!(finalizers(&stage.get("obj").await).len(), 1);
        stage.pass(100.0).await;
        assert_eq!(triggers(stage)[4..], ["requeued, deleted"]);
        assert_eq!(stage.get("obj").await, Value::Null);
    });
}

#[test]
fn children_end_the_delay_of_a_retry_of_the_deletion() {
    sandboxed(async |stage| {
        let sync =
            on::reconcile("sync")
                .finalizer()
                .owns("configmaps")
                .does(|call: Call| async move {
                    if call.body().is_deleting() && !call.children().is_empty() {
                        return temporary("not yet", 10_000.0);
                    }
                    done()
                });
        let _operator = stage.run([sync]).await;
        let owner = stage.create("obj", json!({})).await;
        create_child(stage, "a", &owner).await;
        stage.pass(10.0).await;
        stage.delete("obj").await;
        stage.pass(10.0).await;
        let before = triggers(stage).len();
        assert_eq!(triggers(stage)[before - 1], "deleted");
        delete_child(stage, "a").await;
        stage.pass(10.0).await;
        assert_eq!(triggers(stage)[before..], ["child, retried, deleted"]);
        assert_eq!(stage.get("obj").await, Value::Null);
    });
}
