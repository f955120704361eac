//! Start of daemons and timers.

use serde_json::json;

use super::Flags;
use crate::front::{done, on};
use crate::stage::{FINALIZER, everywhere, finalizers, own_annotations, sandboxed};

#[test]
fn every_object_and_handler_has_one_task() {
    everywhere(async |stage| {
        let handlers = [
            on::daemon("one").waits(),
            on::daemon("two").waits(),
            on::timer("three").interval(600.0),
        ];
        let operator = stage.run(handlers).await;
        stage.create("a", json!({})).await;
        stage.create("b", json!({})).await;
        stage
            .wait_for("all of them to be called", || {
                stage.journal.all().len() == 6
            })
            .await;
        stage.settled().await;
        let now = operator.inspect().snapshot();
        assert_eq!((now.daemons, now.timers), (4, 2));
        stage.merge("a", json!({"spec": {"field": "other"}})).await;
        stage.settled().await;
        assert_eq!(stage.journal.all().len(), 6, "they already run");
        for name in ["a", "b"] {
            assert_eq!(finalizers(&stage.get(name).await), [FINALIZER]);
        }
    });
}

#[test]
fn objects_get_the_finalizer_and_nothing_else() {
    everywhere(async |stage| {
        let _operator = stage.run([on::daemon("watch").waits()]).await;
        stage.create("obj", json!({})).await;
        let object = stage
            .until("obj", "blocked", |object| !finalizers(object).is_empty())
            .await;
        stage.settled().await;
        assert_eq!(own_annotations(&object), Vec::<&str>::new());
        assert!(object["status"].is_null());
        assert_eq!(stage.writes().len(), 1, "the finalizer");
    });
}

#[test]
fn daemons_do_not_wait_for_the_finalizer() {
    sandboxed(async |stage| {
        let _operator = stage.run([on::daemon("watch").waits()]).await;
        stage.create_settled("obj", json!({})).await;
        assert!(finalizers(&stage.journal.only("watch").body).is_empty());
    });
}

#[test]
fn daemons_restart_with_the_operator() {
    everywhere(async |stage| {
        let over = on::daemon("over");
        let watch = on::daemon("watch").waits();
        let operator = stage.run([over, watch]).await;
        stage.create("obj", json!({})).await;
        stage
            .wait_for("both to be called", || stage.journal.all().len() == 2)
            .await;
        stage.settled().await;
        operator.restart().await;
        stage
            .wait_for("both to be called again", || stage.journal.all().len() == 4)
            .await;
        assert_eq!(stage.journal.count("over"), 2);
    });
}

#[test]
fn relisting_does_not_restart_daemons() {
    sandboxed(async |stage| {
        let _operator = stage.run([on::daemon("watch").waits()]).await;
        stage.create_settled("obj", json!({})).await;
        stage.relist();
        stage.pass(60.0).await;
        stage.journal.only("watch");
    });
}

#[test]
fn daemons_are_not_started_for_objects_in_deletion() {
    sandboxed(async |stage| {
        let blocked = json!({"metadata": {"finalizers": ["other.example/x", FINALIZER]}});
        stage.create_with("obj", blocked).await;
        stage.delete("obj").await;
        let _operator = stage.run([on::daemon("watch").waits()]).await;
        stage.settled().await;
        assert_eq!(stage.journal.all().len(), 0);
        assert_eq!(finalizers(&stage.get("obj").await), ["other.example/x"]);
    });
}

#[test]
fn daemons_run_beside_change_handlers() {
    everywhere(async |stage| {
        let flags = Flags::default();
        let kept = flags.clone();
        let watch = on::daemon("watch").does(move |call| {
            let stopped = kept.keep(&call);
            async move {
                stopped.wait(None).await;
                done()
            }
        });
        let handlers = [watch, on::create("make"), on::update("change")];
        let _operator = stage.run(handlers).await;
        stage.create_handled("obj", json!({})).await;
        stage.merge("obj", json!({"spec": {"x": 1}})).await;
        stage.until_settled("obj").await;
        assert_eq!(stage.journal.count("watch"), 1);
        assert_eq!(stage.journal.count("make"), 1);
        assert_eq!(stage.journal.count("change"), 1);
        stage.delete_and_wait("obj").await;
        stage
            .wait_for("the daemon to end", || flags.last().bits() == 4 + 1)
            .await;
    });
}
