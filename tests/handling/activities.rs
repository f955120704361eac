//! The operator's own life around the handling of objects.

use std::time::Duration;

use serde_json::json;

use crate::front::{Declaration, arbitrary, done, on, temporary};
use crate::stage::{everywhere, sandboxed};

/// A startup handler that changes the settings.
fn configures(change: fn(&mut kopf_core::settings::Settings)) -> Declaration {
    on::startup("configure").does(move |call| {
        let draft = call.operator.draft.clone().unwrap();
        let mut settings = draft.get();
        change(&mut settings);
        draft.set(settings);
        async { done() }
    })
}

#[test]
fn startup_comes_before_objects_and_cleanup_after_them() {
    everywhere(async |stage| {
        stage.create("obj", json!({})).await;
        let slow = on::create("make").does(|_| async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            done()
        });
        let handlers = [on::cleanup("end"), slow, on::startup("begin")];
        let operator = stage.run(handlers).await;
        stage
            .until_so("the handler to run", || stage.journal.count("make") == 1)
            .await;
        operator.stop().await;
        assert_eq!(stage.journal.ids(), ["begin", "make", "end"]);
        let log = stage.log.records();
        let place = |text: &str| log.iter().position(|record| record.message.contains(text));
        let finished = place("Handler 'make' succeeded.");
        assert!(finished.is_some(), "it was let end");
        assert!(finished < place("Activity 'end' is invoked."));
    });
}

#[test]
fn nothing_happens_before_startup_handlers_have_succeeded() {
    sandboxed(async |stage| {
        stage.create("obj", json!({})).await;
        let begin = on::startup("begin").does(|call| async move {
            match call.retry {
                0 => temporary("not yet", 10.0),
                _ => done(),
            }
        });
        let before = stage.now();
        let operator = stage.run([begin, on::create("make")]).await;
        stage.until_handled("obj").await;
        let waited = stage.journal.only("make").started.duration_since(before);
        assert!(waited.as_secs() >= 10, "{waited:?}");
        operator.stop().await;
    });
}

#[test]
fn settings_of_startup_handlers_are_in_force() {
    sandboxed(async |stage| {
        let configure = configures(|settings| {
            settings.execution.default_backoff = Duration::from_secs(7);
            settings.persistence.finalizer = "example.com/mine".to_owned();
        });
        let make = on::create("make").does(|call| async move {
            match call.retry {
                0 => arbitrary("oops"),
                _ => done(),
            }
        });
        let _operator = stage.run([configure, make, on::delete("unmake")]).await;
        let object = stage.create_handled("obj", json!({})).await;
        assert_eq!(
            object["metadata"]["finalizers"],
            json!(["example.com/mine"])
        );
        let calls = stage.journal.of("make");
        let (first, second) = (calls[0].runtime, calls[1].runtime);
        let waited = second.saturating_sub(first);
        assert!((7..8).contains(&waited.as_secs()), "{waited:?}");
    });
}

#[test]
fn what_was_started_up_is_cleaned_up_also_if_the_settings_are_wrong() {
    sandboxed(async |stage| {
        let configure = configures(|settings| settings.queueing.worker_limit = Some(0));
        let handlers = [configure, on::create("make"), on::cleanup("end")];
        let error = stage.operator(handlers).fails().await;
        assert!(error.contains("worker_limit"), "{error}");
        assert_eq!(stage.journal.ids(), ["configure", "end"]);
    });
}

#[test]
fn handlers_can_be_declared_after_the_startup() {
    everywhere(async |stage| {
        stage.create("obj", json!({"key": "a"})).await;
        let find = on::index("find").does(|call| async move {
            let key = call.body().spec()["key"].as_str().unwrap_or_default();
            crate::front::indexed(&call, json!({ key: true }))
        });
        let end = on::cleanup("end");
        let handlers = [on::startup("begin"), find, on::create("make"), end];
        let operator = stage.operator(handlers).declares_late().start().await;
        stage.until_handled("obj").await;
        assert_eq!(stage.index("find"), json!({"a": [true]}));
        operator.stop().await;
        let mut ids = stage.journal.ids();
        // The own write is indexed only if its event arrives before the operator stops.
        let first = ids.iter().position(|id| id == "find");
        let mut position = 0;
        ids.retain(|id| {
            position += 1;
            id != "find" || Some(position - 1) == first
        });
        assert_eq!(ids, ["begin", "find", "make", "end"]);
    });
}
