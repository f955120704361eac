//! Errors outside of handlers: the object is processed again after a delay.

use serde_json::json;

use crate::front::on;
use crate::stage::{LAST_HANDLED, everywhere, is_handled, last_handled, sandboxed};

#[test]
fn object_with_an_invalid_diff_base_is_retried_until_it_is_fixed() {
    everywhere(async |stage| {
        let _operator = stage
            .run([on::create("created"), on::update("updated")])
            .await;
        let metadata = json!({"annotations": {LAST_HANDLED: "{not json"}});
        stage
            .create_with("obj", json!({"metadata": metadata, "spec": {"field": 1}}))
            .await;
        stage.create_handled("other", json!({})).await;
        stage
            .wait_for("the error to be logged", || {
                stage
                    .log
                    .of("obj")
                    .iter()
                    .any(|r| r.level == tracing::Level::ERROR)
            })
            .await;
        assert_eq!(
            stage.journal.ids(),
            ["created"],
            "other objects are handled"
        );
        stage
            .merge("obj", json!({"metadata": {"annotations": null}}))
            .await;
        stage.until_handled("obj").await;
        assert_eq!(stage.journal.count("created"), 2);
    });
}

#[test]
fn objects_in_backoff_are_settled() {
    sandboxed(async |stage| {
        let handler = on::create("created").when_fails("the filter is broken");
        let operator = stage.run([handler]).await;
        stage.create_settled("obj", json!({})).await;
        let snapshot = operator.inspect().snapshot();
        assert_eq!((snapshot.working, snapshot.backing_off), (0, 1));
    });
}

#[test]
fn deleted_objects_with_failed_filters_are_dropped() {
    everywhere(async |stage| {
        let handlers = [
            on::create("created").when_fails("the filter is broken"),
            on::daemon("daemon").when_fails("the filter is broken"),
        ];
        let operator = stage.run(handlers).await;
        let objects = || operator.inspect().snapshot().objects;
        stage.create("obj", json!({})).await;
        stage
            .wait_for("the object to be received", || objects() == 1)
            .await;
        stage.delete("obj").await;
        stage
            .wait_for("the object to be dropped", || objects() == 0)
            .await;
    });
}

#[test]
fn delays_increase() {
    sandboxed(async |stage| {
        let setup = stage.operator([on::create("created").when_fails("the filter is broken")]);
        let _operator = setup
            .settings(|settings| {
                let delays = [1, 10, 100].map(std::time::Duration::from_secs);
                settings.queueing.error_delays = delays.to_vec();
            })
            .start()
            .await;
        let errors = || {
            let records = stage.log.of("obj").into_iter();
            records.filter(|r| r.level == tracing::Level::ERROR).count()
        };
        stage.create("obj", json!({})).await;
        let mut seen = Vec::new();
        for pause in [0.5, 1.0, 8.0, 2.0, 95.0, 8.0, 100.0, 100.0] {
            tokio::time::sleep(std::time::Duration::from_secs_f64(pause)).await;
            seen.push(errors());
        }
        // At 0, 1, 11, 111, 211, 311 seconds.
        assert_eq!(seen, [1, 2, 2, 3, 3, 4, 5, 6]);
        let first = &stage.log.of("obj")[0];
        assert!(first.message.contains("the filter is broken"), "{first}");
        assert!(first.message.contains("created"), "{first}");
        assert_eq!(stage.writes(), []);
    });
}

#[test]
fn object_with_an_invalid_field_is_throttled_alone() {
    everywhere(async |stage| {
        let _operator = stage.run([on::field("watched", "spec.deep.field")]).await;
        stage.create("bad", json!({"deep": "a text"})).await;
        stage
            .create_handled("good", json!({"deep": {"field": 1}}))
            .await;
        stage
            .merge("bad", json!({"spec": {"deep": {"field": 2}}}))
            .await;
        stage.until_handled("bad").await;
        let mut objects: Vec<_> = stage.journal.all().into_iter().map(|e| e.object).collect();
        objects.sort();
        assert_eq!(objects, ["bad", "good"]);
    });
}

#[test]
fn change_waits_for_the_end_of_the_delay() {
    sandboxed(async |stage| {
        let setup = stage.operator([on::create("created")]);
        let _operator = setup
            .settings(|settings| {
                settings.queueing.error_delays = vec![std::time::Duration::from_secs(100)];
            })
            .start()
            .await;
        let metadata = json!({"annotations": {LAST_HANDLED: "{not json"}});
        stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        tokio::time::sleep(std::time::Duration::from_secs(10)).await;
        assert_eq!(last_handled(&stage.get("obj").await), json!(null));
        stage
            .merge("obj", json!({"metadata": {"annotations": null}}))
            .await;
        tokio::time::sleep(std::time::Duration::from_secs(80)).await;
        assert_eq!(last_handled(&stage.get("obj").await), json!(null));
        tokio::time::sleep(std::time::Duration::from_secs(20)).await;
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn next_event_retries_immediately_without_delays() {
    everywhere(async |stage| {
        let setup = stage.operator([on::create("created")]);
        let _operator = setup
            .settings(|settings| settings.queueing.error_delays = Vec::new())
            .start()
            .await;
        let metadata = json!({"annotations": {LAST_HANDLED: "{not json"}});
        stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        stage
            .wait_for("the error to be logged", || {
                let records = stage.log.of("obj");
                records.iter().any(|r| r.level == tracing::Level::ERROR)
            })
            .await;
        stage
            .merge("obj", json!({"metadata": {"annotations": null}}))
            .await;
        stage.until_handled("obj").await;
        assert_eq!(stage.journal.ids(), ["created"]);
    });
}

#[test]
fn state_that_is_too_large_is_reported() {
    everywhere(async |stage| {
        let _operator = stage.run([on::create("created")]).await;
        let large = "x".repeat(300 * 1024);
        stage.create("obj", json!({"data": large})).await;
        stage
            .wait_for("the error to be logged", || {
                stage.log.has("obj", "persistence.diffbase_storage")
            })
            .await;
        assert_eq!(stage.journal.count("created"), 1);
        let path = stage.path("obj");
        let small = json!({"spec": {"data": "y"}});
        stage.api.merged(&path, &small).await;
        let object = stage.until_handled("obj").await;
        assert_eq!(last_handled(&object), json!({"spec": {"data": "y"}}));
    });
}
