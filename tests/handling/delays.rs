//! Waiting for the next attempt: in memory, or by touching the object as the original does.

use std::time::Duration;

use kopf_core::outcome::HandlerError;
use serde_json::json;

use crate::front::{Declaration, done, on, temporary};
use crate::stage::{annotation, everywhere, is_handled, own_annotations, progress, sandboxed};

const TOUCH: &str = "kopf.zalando.org/touch-dummy";

/// Returns a handler that fails this many times with this delay.
fn failing(times: u32, delay: f64) -> Declaration {
    on::create("make").does(move |call| async move {
        if call.retry < times {
            return temporary("not yet", delay);
        }
        done()
    })
}

#[test]
fn delayed_objects_are_resumed_without_a_write() {
    sandboxed(async |stage| {
        let operator = stage.run([failing(2, 1000.0)]).await;
        stage.create_settled("obj", json!({})).await;
        assert_eq!(operator.inspect().snapshot().sleeping, 1);
        stage.pass(999.0).await;
        assert_eq!(stage.journal.count("make"), 1);
        assert_eq!(stage.writes().len(), 1);
        stage.pass(2.0).await;
        assert_eq!(stage.journal.count("make"), 2);
        stage.pass(1000.0).await;
        assert!(is_handled(&stage.get("obj").await));
        assert_eq!(stage.writes().len(), 3, "one per attempt");
        assert_eq!(operator.inspect().snapshot().sleeping, 0);
    });
}

#[test]
fn objects_can_be_touched_instead() {
    sandboxed(async |stage| {
        let _operator = stage
            .operator([failing(1, 10.0)])
            .settings(|settings| settings.persistence.touching = true)
            .start()
            .await;
        stage.create_settled("obj", json!({})).await;
        let object = stage.get("obj").await;
        assert_eq!(own_annotations(&object), ["attempted-essences", "make"]);
        stage.pass(20.0).await;
        let bodies: Vec<_> = stage.writes().into_iter().map(|call| call.body).collect();
        assert_eq!(bodies.len(), 3, "{bodies:#?}");
        let touch = &bodies[1]["metadata"]["annotations"];
        assert_eq!(touch.as_object().map(serde_json::Map::len), Some(1));
        let time = touch[TOUCH].as_str().unwrap();
        assert_eq!(time.len(), "2026-01-02T03:04:05.678901+00:00".len());
        let last = &bodies[2]["metadata"]["annotations"];
        assert_eq!(last.get(TOUCH), Some(&json!(null)));
        assert_eq!(last.get("kopf.zalando.org/make"), Some(&json!(null)));
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn long_delays_are_touched_every_ten_minutes() {
    sandboxed(async |stage| {
        let _operator = stage
            .operator([failing(1, 1500.0)])
            .settings(|settings| settings.persistence.touching = true)
            .start()
            .await;
        stage.create("obj", json!({})).await;
        stage.pass(1499.0).await;
        assert_eq!(stage.journal.count("make"), 1);
        stage.pass(700.0).await;
        assert_eq!(stage.journal.count("make"), 2);
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn touch_of_the_original_is_ignored_and_removed_by_the_next_patch() {
    everywhere(async |stage| {
        let _operator = stage
            .run([on::create("created"), on::update("updated")])
            .await;
        stage.create_handled("obj", json!({"field": 1})).await;
        stage.settled().await;
        let touch =
            json!({"metadata": {"annotations": {TOUCH: "2026-01-02T03:04:05.678901+00:00"}}});
        stage.merge("obj", touch).await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["created"]);
        assert_eq!(stage.writes().len(), 1, "no patch only for the removal");
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        let object = stage.until_settled("obj").await;
        assert_eq!(annotation(&object, TOUCH), "");
        assert_eq!(stage.writes().len(), 2);
    });
}

#[test]
fn change_interrupts_the_sleep_and_keeps_the_delay() {
    sandboxed(async |stage| {
        let _operator = stage.run([failing(1, 100.0)]).await;
        stage.create_settled("obj", json!({"field": 1})).await;
        for value in 2..5 {
            stage.pass(20.0).await;
            stage.merge("obj", json!({"spec": {"field": value}})).await;
            stage.settled().await;
        }
        assert_eq!(stage.journal.count("make"), 1, "it is not due yet");
        stage.pass(35.0).await;
        assert_eq!(stage.journal.count("make"), 1);
        stage.pass(10.0).await;
        assert_eq!(stage.journal.count("make"), 2);
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn shortest_delay_is_used() {
    sandboxed(async |stage| {
        let handler = |id: &str, delay: f64| {
            on::create(id).does(move |call| async move {
                if call.retry < 1 {
                    return temporary("not yet", delay);
                }
                done()
            })
        };
        let _operator = stage
            .run([handler("slow", 100.0), handler("quick", 10.0)])
            .await;
        stage.create("obj", json!({})).await;
        stage.pass(11.0).await;
        assert_eq!(stage.journal.ids(), ["slow", "quick", "quick"]);
        let object = stage.get("obj").await;
        assert_eq!(progress(&object, "quick")["success"], true);
        stage.pass(90.0).await;
        assert_eq!(stage.journal.ids(), ["slow", "quick", "quick", "slow"]);
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn waiting_is_logged() {
    sandboxed(async |stage| {
        let _operator = stage.run([failing(1, 10.0)]).await;
        stage.create_settled("obj", json!({})).await;
        assert!(stage.log.has("obj", "Sleeping for "));
        assert!(stage.log.has("obj", "seconds for the delayed handlers."));
        stage.pass(11.0).await;
        assert!(stage.log.has(
            "obj",
            "Handling cycle is finished, waiting for new changes."
        ));
    });
}

#[test]
fn object_removed_during_its_sleep_is_dropped() {
    sandboxed(async |stage| {
        let operator = stage.run([failing(1, 100.0)]).await;
        stage.create_settled("obj", json!({})).await;
        assert_eq!(operator.inspect().snapshot().sleeping, 1);
        stage.delete("obj").await;
        stage.settled().await;
        let snapshot = operator.inspect().snapshot();
        assert_eq!((snapshot.sleeping, snapshot.objects), (0, 0));
        stage.pass(200.0).await;
        assert_eq!(stage.journal.count("make"), 1);
        assert_eq!(stage.writes().len(), 1);
    });
}

#[test]
fn maximum_delay_does_not_overflow() {
    sandboxed(async |stage| {
        let stubborn = on::create("make")
            .does(|_| async { Err(HandlerError::temporary("not yet", Some(Duration::MAX))) });
        let _operator = stage.run([stubborn]).await;
        stage.create("obj", json!({})).await;
        stage.pass(100_000.0).await;
        assert_eq!(stage.journal.count("make"), 1);
        assert_eq!(stage.writes().len(), 1);
        let delayed = progress(&stage.get("obj").await, "make")["delayed"].clone();
        assert!(delayed.as_str().unwrap().starts_with("9999-12-30T"));
    });
}

#[test]
fn maximum_timestamp_of_the_original_is_in_the_future() {
    sandboxed(async |stage| {
        let record = json!({
            "started": "2026-01-02T03:04:05.678901+00:00", "purpose": "create", "retries": 1,
            "delayed": "9999-12-31T23:59:59.999999+00:00", "success": false, "failure": false,
        });
        let annotations = json!({"kopf.zalando.org/make": record.to_string()});
        let metadata = json!({"annotations": annotations});
        stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        let _operator = stage.run([on::create("make")]).await;
        stage.pass(100_000.0).await;
        assert_eq!(stage.journal.count("make"), 0);
    });
}
