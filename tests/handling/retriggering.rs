//! Handlers called again on request: `kopf retrigger`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use kopf_core::cause::Reason;
use kopf_engine::invocation::Call;
use serde_json::{Value, json};

use crate::front::{Declaration, done, on, register, temporary};
use crate::stage::{Stage, annotation, everywhere, is_handled, own_annotations, sandboxed};

const REQUEST: &str = "kopf.zalando.org/retrigger-request";
const BASE: &str = "kopf.zalando.org/last-handled-configuration";

fn request(handlers: &[&str], moment: u32) -> Value {
    let requested = format!("2026-01-02T03:04:{moment:02}.000000+00:00");
    let text = json!({"handlers": handlers, "requested": requested}).to_string();
    json!({"metadata": {"annotations": {REQUEST: text}}})
}

async fn until_fulfilled(stage: &Stage, name: &str) -> Value {
    stage
        .until(name, "without a request", |object| {
            is_handled(object) && annotation(object, REQUEST).is_empty()
        })
        .await
}

#[test]
fn removed_diff_base_is_a_creation() {
    everywhere(async |stage| {
        let _operator = stage
            .run([on::create("created"), on::update("updated")])
            .await;
        stage.create_handled("obj", json!({"field": 1})).await;
        stage.settled().await;
        let removal = json!({"metadata": {"annotations": {BASE: null}}});
        stage.merge("obj", removal).await;
        stage
            .wait_for("the second creation", || {
                stage.journal.count("created") == 2
            })
            .await;
        stage.until_handled("obj").await;
        assert_eq!(stage.journal.ids(), ["created", "created"]);
    });
}

#[test]
fn requested_handler_is_called_again_and_the_request_is_removed() {
    everywhere(async |stage| {
        let handlers = [
            on::create("created"),
            on::update("updated"),
            on::resume("resumed"),
            on::field("field", "spec.field"),
        ];
        let _operator = stage.run(handlers).await;
        stage.create_handled("obj", json!({"field": 1})).await;
        stage.settled().await;
        stage.journal.clear();
        let expected = [
            ("created", Reason::Create),
            ("updated", Reason::Update),
            ("resumed", Reason::Resume),
            ("field/spec.field", Reason::Update),
        ];
        for (moment, (id, reason)) in (1..).zip(expected) {
            stage.merge("obj", request(&[id], moment)).await;
            let object = until_fulfilled(stage, "obj").await;
            stage.settled().await;
            let called = stage.journal.only(id);
            assert_eq!(called.reason, Some(reason), "{id}");
            assert_eq!(called.diff, json!([]), "{id}");
            assert_eq!(stage.journal.ids(), [id]);
            assert_eq!(own_annotations(&object).len(), 1, "{object:#}");
            stage.journal.clear();
        }
    });
}

#[test]
fn outcome_and_removal_of_the_request_are_one_patch() {
    everywhere(async |stage| {
        let _operator = stage.run([on::create("created")]).await;
        stage.create_handled("obj", json!({})).await;
        stage.settled().await;
        let before = stage.writes_to("obj").len();
        stage.merge("obj", request(&["created"], 1)).await;
        until_fulfilled(stage, "obj").await;
        stage.settled().await;
        assert_eq!(stage.writes_to("obj").len(), before + 1);
    });
}

/// Returns a handler that fails temporarily in the attempts with these numbers, counted over the
/// whole test.
fn failing(declaration: Declaration, failures: &'static [usize]) -> Declaration {
    let calls = Arc::new(AtomicUsize::new(0));
    declaration.does(move |_: Call| {
        let number = calls.fetch_add(1, Ordering::Relaxed);
        async move {
            if failures.contains(&number) {
                temporary("not yet", 10.0)
            } else {
                done()
            }
        }
    })
}

#[test]
fn retried_handler_keeps_its_request_over_restarts() {
    sandboxed(async |stage| {
        let handlers = [failing(on::create("created"), &[1, 2])];
        let operator = stage.run(handlers).await;
        stage.create_handled("obj", json!({})).await;
        stage.settled().await;
        stage.merge("obj", request(&["created"], 1)).await;
        let object = stage
            .until("obj", "retried", |object| {
                !annotation(object, "kopf.zalando.org/created").is_empty()
            })
            .await;
        assert!(
            annotation(&object, REQUEST).contains("accepted"),
            "{object:#}"
        );
        operator.restart().await;
        let object = until_fulfilled(stage, "obj").await;
        stage.settled().await;
        assert_eq!(stage.journal.count("created"), 4);
        assert_eq!(own_annotations(&object).len(), 1, "{object:#}");
    });
}

#[test]
fn finished_handler_of_an_unfinished_cause_is_called_again() {
    sandboxed(async |stage| {
        let handlers = [on::create("quick"), failing(on::create("slow"), &[0, 1])];
        let _operator = stage.run(handlers).await;
        stage.create("obj", json!({})).await;
        stage
            .until("obj", "half handled", |object| {
                annotation(object, "kopf.zalando.org/quick").contains(r#""success":true"#)
                    && annotation(object, "kopf.zalando.org/slow").contains("not yet")
            })
            .await;
        assert_eq!(stage.journal.count("quick"), 1);
        stage.merge("obj", request(&["quick"], 1)).await;
        until_fulfilled(stage, "obj").await;
        stage.settled().await;
        assert_eq!(stage.journal.count("quick"), 2);
        assert_eq!(stage.journal.count("slow"), 3);
    });
}

#[test]
fn sub_handlers_are_called_again_with_their_parent() {
    everywhere(async |stage| {
        let parent = on::create("make").does(|call: Call| async move {
            register(&call, &on::sub("a"));
            done()
        });
        let _operator = stage.run([parent]).await;
        stage.create_handled("obj", json!({})).await;
        stage.settled().await;
        let before = stage.journal.count("make/a");
        stage.merge("obj", request(&["make"], 1)).await;
        until_fulfilled(stage, "obj").await;
        stage.settled().await;
        assert_eq!(stage.journal.count("make/a"), before + 1);
    });
}

#[test]
fn requests_of_unknown_handlers_and_invalid_requests_are_removed_with_a_warning() {
    everywhere(async |stage| {
        let _operator = stage
            .run([on::create("created"), on::delete("deleted")])
            .await;
        stage.create_handled("obj", json!({})).await;
        stage.settled().await;
        let garbage = json!({"metadata": {"annotations": {REQUEST: "{"}}});
        for bad in [request(&["absent"], 1), request(&["deleted"], 2), garbage] {
            stage.merge("obj", bad).await;
            until_fulfilled(stage, "obj").await;
        }
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["created"]);
        assert!(stage.log.has(
            "obj",
            "The request to retrigger [absent] is ignored: there is no such handler of creations, \
             updates, resuming or reconciliation."
        ));
    });
}

#[test]
fn change_during_a_request_is_handled() {
    sandboxed(async |stage| {
        let handlers = [failing(on::create("created"), &[1]), on::update("updated")];
        let _operator = stage.run(handlers).await;
        stage.create_handled("obj", json!({"field": 1})).await;
        stage.settled().await;
        stage.merge("obj", request(&["created"], 1)).await;
        stage
            .wait_for("the first attempt", || stage.journal.count("created") == 2)
            .await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        let object = until_fulfilled(stage, "obj").await;
        stage.settled().await;
        assert_eq!(stage.journal.count("created"), 3);
        assert_eq!(stage.journal.count("updated"), 1);
        assert_eq!(own_annotations(&object).len(), 1, "{object:#}");
    });
}
