//! What is remembered of objects, in the process only.

use serde_json::{Value, json};

use crate::front::{Declaration, done, gives, notes, on};
use crate::stage::{everywhere, sandboxed};

/// Counts its calls in the notes about the object, and says how many there were.
fn counting(handler: Declaration) -> Declaration {
    handler.does(|call| async move {
        let count = notes(&call, |notes| {
            let count = notes.get("count").and_then(Value::as_u64).unwrap_or(0) + 1;
            notes.insert("count".to_owned(), json!(count));
            count
        });
        gives(json!(count))
    })
}

#[test]
fn all_handlers_of_an_object_share_its_memo() {
    everywhere(async |stage| {
        let handlers = [
            counting(on::index("index")),
            counting(on::create("first")),
            counting(on::create("second")),
        ];
        let _operator = stage.run(handlers).await;
        for name in ["a", "b"] {
            stage.create(name, json!({})).await;
            stage.until_handled(name).await;
            // The results come right after.
            let object = stage
                .until(name, "results", |object| {
                    object["status"]["second"].is_u64()
                })
                .await;
            let (first, second) = (&object["status"]["first"], &object["status"]["second"]);
            assert_eq!(
                first,
                &json!(2),
                "the index was first, and nobody else's count is here"
            );
            assert!(second.as_u64() > Some(2), "{object:#}");
        }
    });
}

#[test]
fn memos_begin_with_that_of_the_operator() {
    sandboxed(async |stage| {
        let _operator = stage
            .operator([counting(on::create("made"))])
            .notes(json!({"count": 10}))
            .start()
            .await;
        for name in ["a", "b"] {
            stage.create(name, json!({})).await;
            let object = stage.until_handled(name).await;
            assert_eq!(object["status"]["made"], 11);
        }
    });
}

#[test]
fn memos_last_while_nothing_happens_and_end_with_the_object() {
    sandboxed(async |stage| {
        let operator = stage
            .run([
                counting(on::create("made")),
                counting(on::update("changed")),
            ])
            .await;
        stage.create("obj", json!({"field": 0})).await;
        stage.pass(1_000.0).await;
        stage.merge("obj", json!({"spec": {"field": 1}})).await;
        stage.settled().await;
        assert_eq!(stage.get("obj").await["status"]["changed"], 2);
        stage.delete("obj").await;
        stage.settled().await;
        stage.create_settled("obj", json!({"field": 0})).await;
        assert_eq!(
            stage.get("obj").await["status"]["made"],
            1,
            "another object"
        );
        operator.restart().await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.settled().await;
        assert_eq!(
            stage.get("obj").await["status"]["changed"],
            1,
            "another process"
        );
    });
}

#[test]
fn filters_look_into_the_same_memo() {
    sandboxed(async |stage| {
        let few = |notes: &serde_json::Map<String, Value>| {
            notes.get("count").and_then(Value::as_u64).unwrap_or(0) < 2
        };
        let handlers = [
            counting(on::event("counted")).when_noted(few),
            on::event("any").does(|_| async { done() }),
        ];
        let _operator = stage.run(handlers).await;
        stage.create("obj", json!({"field": 0})).await;
        for field in 1..=5 {
            stage.merge("obj", json!({"spec": {"field": field}})).await;
            stage.settled().await;
        }
        assert_eq!(stage.journal.count("counted"), 2);
        assert!(stage.journal.count("any") >= 6);
    });
}
