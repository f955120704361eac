//! Progress records of several handlers over several cycles of one cause.

use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};

use kopf_core::cause::{Cause, Reason};
use kopf_core::lifecycle::{self, AllAtOnce, Candidate, Lifecycle, OneByOne, Randomized, Shuffled};
use serde_json::{Value, json};

use crate::front::{done, gives, on, permanent, temporary};
use crate::stage::{
    Entry, everywhere, is_handled, last_handled, own_annotations, progress, sandboxed,
};

#[test]
fn default_lifecycle_calls_one_handler_per_cycle_and_rotates_failing_ones() {
    sandboxed(async |stage| {
        let handler = |id: &str, failures: u32| {
            on::create(id).does(move |call| async move {
                if call.retry < failures {
                    return temporary("not yet", 0.0);
                }
                done()
            })
        };
        let _operator = stage
            .run([handler("a", 2), handler("b", 0), handler("c", 1)])
            .await;
        stage.create_settled("obj", json!({})).await;
        let calls: Vec<_> = stage.journal.all();
        let calls: Vec<_> = calls.iter().map(Entry::brief).collect();
        assert_eq!(
            calls,
            [("a", 0), ("b", 0), ("c", 0), ("a", 1), ("c", 1), ("a", 2)]
        );
        let before: Vec<_> = stage
            .journal
            .all()
            .iter()
            .map(|e| e.writes_before)
            .collect();
        assert_eq!(before, [0, 1, 2, 3, 4, 5]);
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn one_by_one_retries_the_first_handler_before_the_next() {
    sandboxed(async |stage| {
        let first = on::create("first").does(|call| async move {
            if call.retry < 2 {
                return temporary("not yet", 0.0);
            }
            done()
        });
        let _operator = stage
            .operator([first, on::create("second")])
            .lifecycle(OneByOne)
            .start()
            .await;
        stage.create_settled("obj", json!({})).await;
        assert_eq!(stage.journal.ids(), ["first", "first", "first", "second"]);
    });
}

#[test]
fn all_at_once_calls_all_and_writes_once() {
    everywhere(async |stage| {
        let handlers = [
            on::create("a").does(|_| async { gives(json!(1)) }),
            on::create("b").does(|_| async { permanent("never") }),
            on::create("c"),
        ];
        let _operator = stage.operator(handlers).lifecycle(AllAtOnce).start().await;
        stage.create("obj", json!({})).await;
        let object = stage
            .until("obj", "handled", |object| {
                is_handled(object) && object["status"]["a"] == 1
            })
            .await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["a", "b", "c"]);
        assert_eq!(stage.writes().len(), 2, "the object and its status");
        assert!(
            stage
                .log
                .has("obj", "Creation is processed: 2 succeeded; 1 failed.")
        );
        assert_eq!(own_annotations(&object).len(), 1);
    });
}

/// A lifecycle that fails before it calls handlers.
#[derive(Debug, Default)]
struct Failing(AtomicU32);

impl Lifecycle for Failing {
    fn pick(&self, candidates: &[Candidate<'_>], _: &Cause, _: &dyn Any) -> Vec<usize> {
        (0..candidates.len()).collect()
    }

    fn try_pick(
        &self,
        candidates: &[Candidate<'_>],
        cause: &Cause,
        context: &dyn Any,
    ) -> Result<Vec<usize>, lifecycle::Error> {
        if self.0.fetch_add(1, Ordering::Relaxed) < 2 {
            return Err(lifecycle::Error("bad luck".to_owned()));
        }
        Ok(self.pick(candidates, cause, context))
    }
}

#[test]
fn failed_lifecycle_is_retried_later() {
    sandboxed(async |stage| {
        let setup = stage.operator([on::create("make")]);
        let _operator = setup.lifecycle(Failing::default()).start().await;
        stage.create("obj", json!({})).await;
        stage.pass(1000.0).await;
        assert_eq!(stage.journal.ids(), ["make"]);
        let records = stage.log.records();
        let failures = records.iter().filter(|record| {
            record
                .message
                .contains("the lifecycle has failed: bad luck")
        });
        let failures: Vec<&str> = failures.map(|record| &*record.message).collect();
        assert_eq!(failures.len(), 2, "{failures:?}");
        assert!(
            failures[0].starts_with("Throttling for 1 second"),
            "{failures:?}"
        );
    });
}

#[test]
fn random_lifecycles_call_each_handler_once() {
    everywhere(async |stage| {
        let handlers = || ["a", "b", "c"].map(on::create);
        let operator = stage
            .operator(handlers())
            .lifecycle(Randomized::new(7))
            .start()
            .await;
        stage.create_handled("one", json!({})).await;
        operator.stop().await;
        let mut ids = stage.journal.ids();
        ids.sort();
        assert_eq!(ids, ["a", "b", "c"]);
        stage.journal.clear();
        let _operator = stage
            .operator(handlers())
            .lifecycle(Shuffled::new(7))
            .start()
            .await;
        stage.create_handled("two", json!({})).await;
        stage.settled().await;
        let mut ids = stage.journal.ids();
        ids.sort();
        assert_eq!(ids, ["a", "b", "c"]);
        assert_eq!(stage.writes_to("two").len(), 1);
    });
}

#[test]
fn records_have_the_format_of_the_original() {
    sandboxed(async |stage| {
        let failing = on::create("failing").does(|_| async { temporary("not \"yet\" ä", 60.0) });
        let _operator = stage.run([failing, on::create("waiting")]).await;
        let started = stage.now();
        let breakpoint = stage.breakpoint(1, kopf_testing::recording::Moment::After);
        stage.create("obj", json!({})).await;
        breakpoint.reached().await;
        let object = stage.get("obj").await;
        let failing = progress(&object, "failing");
        let keys: Vec<_> = failing.as_object().unwrap().keys().collect();
        let expected = [
            "delayed", "failure", "message", "purpose", "retries", "started", "success",
        ];
        assert_eq!(keys, expected);
        assert_eq!(failing["purpose"], "create");
        assert_eq!(failing["retries"], 1);
        assert_eq!(failing["message"], "not \"yet\" ä");
        let time = |value: &Value| {
            let text = value.as_str().unwrap();
            assert!(text.ends_with("+00:00"), "{text}");
            assert_eq!(text.len(), "2026-01-02T03:04:05.678901+00:00".len());
            text.parse::<jiff::Timestamp>().unwrap()
        };
        let since = time(&failing["started"]).duration_since(started);
        assert!(
            since.abs() < jiff::SignedDuration::from_millis(100),
            "{since}"
        );
        let delay = time(&failing["delayed"]).duration_since(time(&failing["started"]));
        assert_eq!(delay.as_secs(), 60);
        let waiting = progress(&object, "waiting");
        assert_eq!(waiting["retries"], 0);
        assert_eq!(
            (&waiting["success"], &waiting["failure"]),
            (&json!(false), &json!(false))
        );
        let text = object["metadata"]["annotations"]["kopf.zalando.org/waiting"].as_str();
        let text = text.unwrap();
        assert!(text.starts_with("{\"started\":\""), "{text}");
        assert!(
            text.ends_with(
                ",\"purpose\":\"create\",\"retries\":0,\"success\":false,\"failure\":false}"
            ),
            "{text}"
        );
    });
}

#[test]
fn finished_handler_is_not_called_again_while_others_are_retried() {
    sandboxed(async |stage| {
        let slow = on::create("slow").does(|call| async move {
            if call.retry < 3 {
                return temporary("not yet", 10.0);
            }
            done()
        });
        let operator = stage
            .run([
                on::create("quick"),
                slow,
                on::create("failed").does(|_| async { permanent("x") }),
            ])
            .await;
        stage.create_settled("obj", json!({})).await;
        operator.restart().await;
        stage.pass(100.0).await;
        assert_eq!(stage.journal.count("quick"), 1);
        assert_eq!(stage.journal.count("failed"), 1);
        let retries: Vec<_> = stage.journal.of("slow").iter().map(|e| e.retry).collect();
        assert_eq!(retries, [0, 1, 2, 3]);
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn permanent_failure_lasts_until_the_next_change() {
    everywhere(async |stage| {
        let failing = on::update("updated").does(|_| async { permanent("never") });
        let _operator = stage.run([on::create("created"), failing]).await;
        stage.create_handled("obj", json!({"field": 1})).await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        let object = stage.until_handled("obj").await;
        assert_eq!(last_handled(&object)["spec"]["field"], 2);
        stage
            .merge_status("obj", json!({"status": {"noise": 1}}))
            .await;
        stage.settled().await;
        assert_eq!(stage.journal.count("updated"), 1);
        stage.merge("obj", json!({"spec": {"field": 3}})).await;
        stage.until_handled("obj").await;
        let entry = stage.journal.of("updated").pop().unwrap();
        assert_eq!(entry.diff, json!([["change", ["spec", "field"], 2, 3]]));
        assert_eq!(entry.retry, 0);
    });
}

#[test]
fn later_changes_join_an_update_during_its_retries() {
    sandboxed(async |stage| {
        let slow = on::update("slow").does(|call| async move {
            if call.retry < 1 {
                return temporary("not yet", 60.0);
            }
            done()
        });
        let _operator = stage
            .run([on::create("created"), on::update("quick"), slow])
            .await;
        stage.create_settled("obj", json!({"a": 1, "b": 1})).await;
        stage.merge("obj", json!({"spec": {"a": 2}})).await;
        stage.settled().await;
        stage.merge("obj", json!({"spec": {"b": 2}})).await;
        stage.pass(100.0).await;
        let diffs = |id| stage.journal.of(id).into_iter().map(|entry| entry.diff);
        let missed = json!([["change", ["spec", "b"], 1, 2]]);
        let quick: Vec<_> = diffs("quick").collect();
        assert_eq!(quick, [json!([["change", ["spec", "a"], 1, 2]]), missed]);
        let diffs: Vec<_> = diffs("slow").collect();
        let both = json!([
            ["change", ["spec", "a"], 1, 2],
            ["change", ["spec", "b"], 1, 2]
        ]);
        assert_eq!(diffs, [json!([["change", ["spec", "a"], 1, 2]]), both]);
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn new_cause_supersedes_an_unfinished_one() {
    sandboxed(async |stage| {
        let creating = on::create("created").does(|_| async { temporary("not yet", 600.0) });
        let _operator = stage
            .run([on::create("done"), creating, on::delete("deleted")])
            .await;
        stage.create_settled("obj", json!({})).await;
        let object = stage.get("obj").await;
        assert_eq!(progress(&object, "created")["retries"], 1);
        // A foreign finalizer keeps the object.
        let ours = object["metadata"]["finalizers"][0].clone();
        let finalizers = json!({"metadata": {"finalizers": [ours, "example.com/other"]}});
        stage.merge("obj", finalizers).await;
        stage.settled().await;
        stage.delete("obj").await;
        stage.settled().await;
        let texts: Vec<_> = stage.log.of("obj").into_iter().map(|r| r.message).collect();
        let superseded = texts.iter().find(|text| text.contains("superseded by"));
        let superseded = superseded.unwrap_or_else(|| panic!("no message about it in {texts:#?}"));
        assert_eq!(
            superseded,
            "Creation is superseded by deletion: 1 succeeded; 0 failed; 1 left to the moment."
        );
        assert_eq!(stage.journal.ids(), ["done", "created", "deleted"]);
        let object = stage.get("obj").await;
        assert_eq!(own_annotations(&object), ["last-handled-configuration"]);
    });
}

#[test]
fn handler_of_both_causes_keeps_its_progress() {
    sandboxed(async |stage| {
        // Field handlers react to creations, updates and deletions.
        let watched = on::field("watched", "spec.field").does(|call| async move {
            if call.retry < 2 {
                return temporary("not yet", 60.0);
            }
            done()
        });
        let _operator = stage.run([watched, on::delete("deleted")]).await;
        stage.create_settled("obj", json!({"field": 1})).await;
        stage.delete("obj").await;
        stage.pass(1000.0).await;
        let calls: Vec<_> = stage.journal.all();
        let of_field: Vec<_> = calls
            .iter()
            .filter(|entry| entry.id == "watched/spec.field")
            .map(|entry| (entry.retry, entry.reason.map(Reason::as_str)))
            .collect();
        assert_eq!(
            of_field,
            [
                (0, Some("create")),
                (1, Some("delete")),
                (2, Some("delete"))
            ]
        );
        assert!(stage.get("obj").await.is_null());
    });
}

#[test]
fn records_of_unknown_handlers_are_kept() {
    everywhere(async |stage| {
        let _operator = stage.run([on::create("made")]).await;
        let record = r#"{"started":"2026-01-02T03:04:05.678901+00:00","purpose":"create","retries":3,"success":false,"failure":false}"#;
        let metadata = json!({"annotations": {"kopf.zalando.org/unknown": record}});
        stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        let object = stage
            .until("obj", "handled", |object| last_handled(object).is_object())
            .await;
        assert_eq!(
            own_annotations(&object),
            ["last-handled-configuration", "unknown"]
        );
        assert_eq!(stage.journal.only("made").retry, 0);
    });
}
