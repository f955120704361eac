//! Event handlers.

use kopf_core::cause::EventType;
use kopf_core::filter::{MetaCriterion, ValueCriterion};
use serde_json::json;

use crate::front::{arbitrary, done, on, permanent, temporary};
use crate::stage::{everywhere, is_handled, sandboxed};

#[test]
fn handlers_receive_every_event_with_its_type() {
    everywhere(async |stage| {
        stage.create("before", json!({})).await;
        let _operator = stage.run([on::event("spy")]).await;
        // Objects that are removed before the listing have no events.
        stage
            .wait_for("the listing", || stage.journal.count("spy") > 0)
            .await;
        stage.create("obj", json!({"field": 1})).await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.delete("obj").await;
        stage
            .wait_for("four events", || stage.journal.count("spy") >= 4)
            .await;
        stage.settled().await;
        let all = stage.journal.all();
        let of = |name: &str| -> Vec<_> {
            let entries = all.iter().filter(|entry| entry.object == name);
            entries.map(|entry| entry.event.unwrap()).collect()
        };
        assert_eq!(of("before"), [EventType::Listed]);
        assert_eq!(
            of("obj"),
            [EventType::Added, EventType::Modified, EventType::Deleted]
        );
        assert!(
            all.iter()
                .all(|entry| entry.reason.is_none() && entry.retry == 0)
        );
        assert_eq!(stage.writes(), []);
    });
}

#[test]
fn all_handlers_are_called_in_order_and_errors_are_only_logged() {
    everywhere(async |stage| {
        let handlers = [
            on::event("temporary").does(|_| async { temporary("later", 5.0) }),
            on::event("permanent").does(|_| async { permanent("never") }),
            on::event("arbitrary").does(|_| async { arbitrary("boom") }),
            on::event("panicking").does(|_| async { panic!("oops") }),
            on::event("fine"),
            on::event("labelled").label("x", MetaCriterion::Present),
        ];
        let _operator = stage.run(handlers).await;
        stage.create("obj", json!({})).await;
        stage
            .wait_for("all to be called", || stage.journal.count("fine") > 0)
            .await;
        stage.pass(0.5).await;
        let ids = stage.journal.ids();
        assert_eq!(
            ids,
            ["temporary", "permanent", "arbitrary", "panicking", "fine"]
        );
        let errors = stage.log.of("obj").into_iter();
        let errors = errors.filter(|record| record.level == tracing::Level::ERROR);
        assert_eq!(errors.count(), 4);
        assert_eq!(stage.writes(), []);
    });
}

#[test]
fn patches_are_written_with_those_of_other_handlers_and_not_for_deleted_objects() {
    everywhere(async |stage| {
        let spy = on::event("spy").does(|call| async move {
            let generation = call.body().metadata().get("generation").cloned();
            call.patch.with(|patch| {
                patch
                    .status_mut()
                    .insert("seen".to_owned(), generation.unwrap_or_default())
            });
            done()
        });
        let _operator = stage.run([spy, on::create("created")]).await;
        stage.create("obj", json!({"field": 1})).await;
        stage
            .until("obj", "seen", |object| {
                is_handled(object) && object["status"]["seen"] == 1
            })
            .await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage
            .until("obj", "seen", |object| object["status"]["seen"] == 2)
            .await;
        stage.settled().await;
        let before = stage.writes().len();
        stage.delete_and_wait("obj").await;
        stage.settled().await;
        assert_eq!(stage.writes().len(), before);
        assert_eq!(stage.journal.count("created"), 1);
    });
}

#[test]
fn every_version_is_seen_even_if_change_handlers_skip_some() {
    sandboxed(async |stage| {
        let slow = on::create("slow").does(|_| async {
            tokio::time::sleep(std::time::Duration::from_secs(10)).await;
            done()
        });
        let _operator = stage
            .run([on::event("spy"), slow, on::update("updated")])
            .await;
        stage.create("obj", json!({"field": 0})).await;
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        for value in 1..=5 {
            stage.merge("obj", json!({"spec": {"field": value}})).await;
        }
        stage.pass(60.0).await;
        let seen: Vec<_> = stage.journal.of("spy");
        let mut seen: Vec<_> = seen
            .iter()
            .map(|e| e.body["spec"]["field"].clone())
            .collect();
        seen.dedup();
        assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
        let updated = stage.journal.only("updated");
        assert_eq!(updated.diff, json!([["change", ["spec", "field"], 0, 5]]));
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn records_of_handlers_are_posted_and_routine_records_are_not() {
    everywhere(async |stage| {
        let spy = on::event("spy").does(|call| async move {
            call.logger.warning("loudly");
            done()
        });
        let _operator = stage
            .operator([spy, on::create("created")])
            .settings(|settings| settings.posting.loggers = true)
            .start()
            .await;
        stage.create_handled("obj", json!({})).await;
        stage
            .wait_for("events of both handlers", || stage.posts().len() >= 3)
            .await;
        stage.settled().await;
        let mut messages: Vec<_> = stage
            .posts()
            .into_iter()
            .map(|post| post["message"].as_str().unwrap_or_default().to_owned())
            .collect();
        messages.sort();
        messages.dedup();
        assert_eq!(
            messages,
            [
                "Creation is processed: 1 succeeded; 0 failed.",
                "Handler 'created' succeeded.",
                "loudly",
            ]
        );
    });
}

#[test]
fn handlers_are_filtered_by_the_current_body() {
    everywhere(async |stage| {
        let one = ValueCriterion::Literal(json!(1));
        let handlers = [
            on::event("one").field("spec.field").value(one),
            on::event("present").field("spec.field"),
            on::event("absent")
                .field("spec.field")
                .value(ValueCriterion::Absent),
            on::event("named").when(|cause| cause.body.name() == Some("b")),
            on::event("any").does(|call| async move {
                assert!(call.subs.is_none());
                done()
            }),
        ];
        let _operator = stage.run(handlers).await;
        for (name, spec, expected) in [
            (
                "a",
                json!({"field": 1}),
                vec!["one/spec.field", "present/spec.field", "any"],
            ),
            (
                "b",
                json!({"field": 2}),
                vec!["present/spec.field", "named", "any"],
            ),
            ("c", json!({}), vec!["absent/spec.field", "any"]),
        ] {
            stage.journal.clear();
            stage.create(name, spec).await;
            stage
                .wait_for("the event", || stage.journal.count("any") > 0)
                .await;
            assert_eq!(stage.journal.ids(), expected, "{name}");
        }
        let errors = stage.log.records().into_iter();
        assert_eq!(
            errors.filter(|r| r.level == tracing::Level::ERROR).count(),
            0
        );
    });
}

#[test]
fn failed_filter_skips_only_its_handler() {
    sandboxed(async |stage| {
        let broken = on::event("broken").when_fails("the filter is broken");
        let panicking = on::event("panicking").when(|_| panic!("oops"));
        let _operator = stage
            .run([broken, on::event("one"), panicking, on::event("two")])
            .await;
        stage.create_settled("obj", json!({})).await;
        assert_eq!(stage.journal.ids(), ["one", "two"]);
        for line in [
            "An event handler is skipped: the when filter of the handler \"broken\" has failed: \
             the filter is broken",
            "An event handler is skipped: the when filter of the handler \"panicking\" has \
             failed: it has panicked: oops",
        ] {
            assert!(stage.log.has("obj", line), "{line}");
        }
    });
}
