//! Memos shared by admission requests and other handlers.

use kopf_engine::invocation::Call;
use serde_json::{Value, json};

use super::{FakeServer, admitting, creation, review};
use crate::front::{Declaration, done, notes, on};
use crate::stage::{everywhere, sandboxed};

/// Returns a handler that counts its calls in the memo and reports the number as a warning.
fn counting(handler: Declaration) -> Declaration {
    handler.does(|call: Call| async move {
        let count = notes(&call, |notes| {
            let count = notes.get("count").and_then(Value::as_u64);
            let count = count.unwrap_or(0) + 1;
            notes.insert("count".to_owned(), json!(count));
            count
        });
        if let Some(admission) = call.admission() {
            admission.warnings.push(count.to_string());
        }
        done()
    })
}

#[test]
fn memos_are_found_by_uid() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let _operator = admitting(stage, &server, [counting(on::validate("check"))])
            .open(&server)
            .await;
        let thing = |uid: &str| {
            let mut thing = stage.thing("obj", json!({}));
            thing["metadata"]["uid"] = json!(uid);
            thing
        };
        let mut seen = Vec::new();
        for uid in ["one", "one", "other", "one"] {
            let asked = review(stage, "UPDATE", Some(thing(uid)), Some(thing(uid)));
            seen.push(server.ask(asked).await["warnings"].take());
        }
        let asked = review(stage, "DELETE", None, Some(thing("other")));
        seen.push(server.ask(asked).await["warnings"].take());
        assert_eq!(json!(seen), json!([["1"], ["2"], ["1"], ["3"], ["2"]]));
    });
}

#[test]
fn memos_of_creation_requests_are_dropped() {
    everywhere(async |stage| {
        let server = FakeServer::default();
        let handlers = [
            counting(on::validate("first")),
            counting(on::validate("second")),
        ];
        let _operator = admitting(stage, &server, handlers).open(&server).await;
        for _ in 0..2 {
            let response = server.ask(creation(stage, json!({}))).await;
            assert_eq!(
                response["warnings"],
                json!(["1", "2"]),
                "shared by the handlers of one request"
            );
        }
    });
}

#[test]
fn admission_and_other_handlers_share_the_memo() {
    sandboxed(async |stage| {
        let server = FakeServer::default();
        let handlers = [
            counting(on::validate("check")),
            counting(on::create("make")),
            counting(on::event("watch")),
        ];
        let _operator = admitting(stage, &server, handlers).open(&server).await;
        let object = stage.create_handled("obj", json!({})).await;
        stage.settled().await;
        let calls = || stage.journal.all().len().to_string();
        let mut before = calls();
        // The object is idle between the changes and keeps its memo.
        for round in 0..3 {
            let asked = review(stage, "UPDATE", Some(object.clone()), Some(object.clone()));
            let response = server.ask(asked).await;
            assert_ne!(calls(), before);
            assert_eq!(response["warnings"], json!([calls()]), "all have counted");
            stage.merge("obj", json!({"spec": {"round": round}})).await;
            stage.pass(100.0).await;
            before = calls();
        }
        stage.delete_and_wait("obj").await;
        stage.pass(100.0).await;
        let asked = review(stage, "UPDATE", Some(object.clone()), Some(object));
        let response = server.ask(asked).await;
        assert_eq!(
            response["warnings"],
            json!(["1"]),
            "dropped with the object"
        );
    });
}

#[test]
fn memo_of_a_request_is_kept_for_later_handlers() {
    sandboxed(async |stage| {
        let server = FakeServer::default();
        let handlers = [
            counting(on::validate("check")),
            counting(on::update("change")),
        ];
        let object = stage.create("obj", json!({})).await;
        let _operator = admitting(stage, &server, handlers).open(&server).await;
        stage.until_handled("obj").await;
        stage.pass(100.0).await;
        let asked = review(stage, "UPDATE", Some(object.clone()), Some(object));
        let response = server.ask(asked.clone()).await;
        assert_eq!(response["warnings"], json!(["1"]));
        stage.merge("obj", json!({"spec": {"field": 1}})).await;
        stage.until_handled("obj").await;
        assert_eq!(stage.journal.count("change"), 1);
        let response = server.ask(asked).await;
        assert_eq!(response["warnings"], json!(["3"]));
    });
}
