//! Results of handlers in the status.

use kopf_core::lifecycle::AllAtOnce;
use serde_json::json;

use crate::front::{done, gives, on, permanent};
use crate::stage::{Kind, everywhere, everywhere_on, is_handled};

#[test]
fn results_of_any_type_are_stored_under_the_full_id() {
    everywhere(async |stage| {
        let values = json!({
            "object": {"a": {"b": 1}}, "list": [1, "x", null], "text": "t", "number": 1.5,
            "yes": true, "no": false, "empty": {},
        });
        let handlers = values
            .as_object()
            .unwrap()
            .clone()
            .into_iter()
            .map(|(id, value)| {
                on::create(&id).does(move |_| {
                    let value = value.clone();
                    async move { gives(value) }
                })
            });
        let mut handlers: Vec<_> = handlers.collect();
        handlers.push(
            on::create("with")
                .field("spec.field")
                .does(|_| async { gives(json!(1)) }),
        );
        handlers.push(on::create("nothing"));
        handlers.push(on::create("failed").does(|_| async { permanent("no") }));
        let _operator = stage.operator(handlers).lifecycle(AllAtOnce).start().await;
        stage.create("obj", json!({"field": 1})).await;
        let object = stage
            .until("obj", "handled", |object| {
                is_handled(object) && object["status"].is_object()
            })
            .await;
        let mut expected = values;
        expected["with/spec.field"] = json!(1);
        assert_eq!(object["status"], expected);
    });
}

#[test]
fn objects_are_merged_into_the_existing_status() {
    everywhere(async |stage| {
        let updated = on::update("fn")
            .does(|call| async move { gives(json!({"new": call.body().spec()["field"]})) });
        let created = on::create("fn").does(|_| async { gives(json!({"old": 1, "new": 1})) });
        let _operator = stage.run([created, updated]).await;
        stage.create_handled("obj", json!({"field": 1})).await;
        stage.settled().await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        let object = stage
            .until("obj", "updated", |object| {
                object["status"]["fn"]["new"] == 2
            })
            .await;
        assert_eq!(object["status"]["fn"], json!({"old": 1, "new": 2}));
    });
}

#[test]
fn results_are_written_with_the_object_without_the_subresource() {
    everywhere_on(Kind::Plain, async |stage| {
        let make = on::create("make").does(|_| async { gives(json!({"a": 1})) });
        let _operator = stage.run([make]).await;
        let object = stage.create_handled("obj", json!({})).await;
        assert_eq!(object["status"], json!({"make": {"a": 1}}));
        stage.settled().await;
        let writes = stage.writes();
        assert_eq!(writes.len(), 1);
        assert_eq!(writes[0].body["status"], json!({"make": {"a": 1}}));
    });
}

#[test]
fn results_can_be_written_before_the_progress() {
    everywhere(async |stage| {
        for (name, results_first, expected) in [
            ("as-ever", false, [None, Some("status")]),
            ("safely", true, [Some("status"), None]),
        ] {
            let make = on::create("make").does(|_| async { gives(json!({"a": 1})) });
            let operator = stage.operator([make]).settings(|settings| {
                settings.persistence.results_first = results_first;
            });
            let operator = operator.start().await;
            stage.create(name, json!({})).await;
            stage.until_handled(name).await;
            stage.settled().await;
            operator.stop().await;
            let writes = stage.writes_to(name);
            let order: Vec<_> = writes
                .iter()
                .map(|write| write.subresource.as_deref())
                .collect();
            assert_eq!(order, expected, "{name}");
        }
    });
}

#[test]
fn results_of_event_handlers_are_stored() {
    everywhere(async |stage| {
        let spy = on::event("spy").does(|call| async move {
            if call.body().status()["spy"].is_null() {
                return gives(json!({"seen": true}));
            }
            done()
        });
        let _operator = stage.run([spy]).await;
        stage.create("obj", json!({})).await;
        let object = stage
            .until("obj", "seen", |object| object["status"].is_object())
            .await;
        stage.settled().await;
        assert_eq!(object["status"], json!({"spy": {"seen": true}}));
        assert_eq!(stage.writes().len(), 1);
    });
}
