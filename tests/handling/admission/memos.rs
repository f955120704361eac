//! What is remembered of objects between requests, and between requests and other handlers (§2.3).

use kopf_engine::invocation::Call;
use serde_json::{Value, json};

use super::{Desk, creation, review, staffed};
use crate::front::{Declaration, done, notes, on};
use crate::stage::{everywhere, sandboxed};

/// Counts its calls in the notes, and tells the number as a warning.
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
fn objects_are_remembered_by_their_uids() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let _operator = staffed(stage, &desk, [counting(on::validate("check"))])
            .open(&desk)
            .await;
        let thing = |uid: &str| {
            let mut thing = stage.thing("obj", json!({}));
            thing["metadata"]["uid"] = json!(uid);
            thing
        };
        let mut seen = Vec::new();
        for uid in ["one", "one", "other", "one"] {
            let asked = review(stage, "UPDATE", Some(thing(uid)), Some(thing(uid)));
            seen.push(desk.ask(asked).await["warnings"].take());
        }
        let asked = review(stage, "DELETE", None, Some(thing("other")));
        seen.push(desk.ask(asked).await["warnings"].take());
        assert_eq!(json!(seen), json!([["1"], ["2"], ["1"], ["3"], ["2"]]));
    });
}

#[test]
fn what_is_to_be_created_is_not_remembered() {
    everywhere(async |stage| {
        let desk = Desk::default();
        let handlers = [
            counting(on::validate("first")),
            counting(on::validate("second")),
        ];
        let _operator = staffed(stage, &desk, handlers).open(&desk).await;
        for _ in 0..2 {
            let response = desk.ask(creation(stage, json!({}))).await;
            assert_eq!(
                response["warnings"],
                json!(["1", "2"]),
                "shared by the handlers"
            );
        }
    });
}

#[test]
fn other_handlers_of_the_object_have_the_same_memo() {
    sandboxed(async |stage| {
        let desk = Desk::default();
        let handlers = [
            counting(on::validate("check")),
            counting(on::create("make")),
            counting(on::event("watch")),
        ];
        let _operator = staffed(stage, &desk, handlers).open(&desk).await;
        let object = stage.create_handled("obj", json!({})).await;
        stage.settled().await;
        let calls = || stage.journal.all().len().to_string();
        let mut before = calls();
        // The object is at rest between the changes, and comes back to its memo.
        for round in 0..3 {
            let asked = review(stage, "UPDATE", Some(object.clone()), Some(object.clone()));
            let response = desk.ask(asked).await;
            assert_ne!(calls(), before);
            assert_eq!(response["warnings"], json!([calls()]), "all have counted");
            stage.merge("obj", json!({"spec": {"round": round}})).await;
            stage.pass(100.0).await;
            before = calls();
        }
        stage.delete_wholly("obj").await;
        stage.pass(100.0).await;
        let asked = review(stage, "UPDATE", Some(object.clone()), Some(object));
        let response = desk.ask(asked).await;
        assert_eq!(
            response["warnings"],
            json!(["1"]),
            "forgotten with the object"
        );
    });
}

#[test]
fn a_memo_of_a_request_is_found_by_handlers_that_come_later() {
    sandboxed(async |stage| {
        let desk = Desk::default();
        let handlers = [
            counting(on::validate("check")),
            counting(on::update("change")),
        ];
        let object = stage.create("obj", json!({})).await;
        let _operator = staffed(stage, &desk, handlers).open(&desk).await;
        stage.until_handled("obj").await;
        stage.pass(100.0).await;
        let asked = review(stage, "UPDATE", Some(object.clone()), Some(object));
        let response = desk.ask(asked.clone()).await;
        assert_eq!(response["warnings"], json!(["1"]));
        stage.merge("obj", json!({"spec": {"field": 1}})).await;
        stage.until_handled("obj").await;
        assert_eq!(stage.journal.count("change"), 1);
        let response = desk.ask(asked).await;
        assert_eq!(response["warnings"], json!(["3"]));
    });
}
