//! Changes that arrive while handlers of an earlier change still run or wait: no handler misses them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kopf_core::body::Body;
use kopf_core::diffbase::{AnnotationsDiffBaseStorage, DiffBaseStorage, StorageError};
use kopf_core::field::FieldPath;
use kopf_core::keys::KeyNaming;
use kopf_core::patch::{Patch, PatchFn};
use serde_json::{Value, json};

use crate::front::{Declaration, done, on, register, temporary};
use crate::stage::{
    Stage, annotation, everywhere, is_handled, own_annotations, progress, sandboxed,
};

const ATTEMPTED: &str = "kopf.zalando.org/attempted-essences";

/// A handler that fails once and succeeds two seconds later.
fn slow(handler: Declaration) -> Declaration {
    handler.does(|call| async move {
        if call.retry < 1 {
            return temporary("not yet", 2.0);
        }
        done()
    })
}

/// Waits until `quick` has finished and `slow` waits for its second attempt.
async fn until_waiting(stage: &Stage) -> Value {
    stage
        .until("obj", "waiting", |object| {
            progress(object, "quick")["success"] == true && progress(object, "slow")["retries"] == 1
        })
        .await
}

async fn set_field(stage: &Stage, value: i32) {
    stage.merge("obj", json!({"spec": {"field": value}})).await;
}

/// The reasons of the calls of one handler.
fn reasons(stage: &Stage, id: &str) -> Vec<&'static str> {
    let calls = stage.journal.of(id).into_iter();
    calls
        .map(|entry| entry.reason.map_or("", |reason| reason.as_str()))
        .collect()
}

/// The diffs of the calls of one handler.
fn diffs(stage: &Stage, id: &str) -> Vec<Value> {
    let calls = stage.journal.of(id).into_iter();
    calls.map(|entry| entry.diff).collect()
}

fn changed(old: i32, new: i32) -> Value {
    json!([["change", ["spec", "field"], old, new]])
}

/// An annotation with one attempt of `quick`.
fn attempted(spec: Value, retries: u32) -> String {
    let attempt = json!({"essence": 0, "started": STARTED, "retries": retries});
    json!({"essences": [{"spec": spec}], "attempts": {"quick": attempt}}).to_string()
}

const STARTED: &str = "2026-01-02T03:04:05.678901+00:00";

/// The record of a handler that has succeeded at its first attempt.
fn success() -> String {
    format!(
        r#"{{"started":"{STARTED}","purpose":"create","retries":1,"success":true,"failure":false}}"#
    )
}

#[test]
fn change_during_a_creation_is_followed_by_an_update() {
    everywhere(async |stage| {
        let handlers = [
            on::create("quick"),
            slow(on::create("slow")),
            on::update("updated"),
        ];
        let _operator = stage.run(handlers).await;
        stage.create("obj", json!({"field": 1})).await;
        until_waiting(stage).await;
        set_field(stage, 2).await;
        stage.until_settled("obj").await;
        assert_eq!(reasons(stage, "quick"), ["create"]);
        assert_eq!(reasons(stage, "slow"), ["create", "create"]);
        assert_eq!(diffs(stage, "updated"), [changed(1, 2)]);
    });
}

#[test]
fn handlers_that_finished_on_the_current_state_are_not_called_again() {
    everywhere(async |stage| {
        let quick = on::create("quick");
        let slow = slow(on::create("slow"));
        let handlers = [
            quick.also(on::update("quick")),
            slow.also(on::update("slow")),
            quick,
            slow,
        ];
        let _operator = stage.run(handlers).await;
        stage.create("obj", json!({"field": 1})).await;
        until_waiting(stage).await;
        set_field(stage, 2).await;
        stage.until_settled("obj").await;
        assert_eq!(reasons(stage, "quick"), ["create", "update"]);
        assert_eq!(diffs(stage, "quick")[1], changed(1, 2));
        assert_eq!(reasons(stage, "slow"), ["create", "create"]);
    });
}

#[test]
fn change_during_an_update_is_seen_by_finished_handlers() {
    everywhere(async |stage| {
        let _operator = stage
            .run([on::update("quick"), slow(on::update("slow"))])
            .await;
        stage.create_handled("obj", json!({"field": 1})).await;
        set_field(stage, 2).await;
        until_waiting(stage).await;
        set_field(stage, 3).await;
        stage.until_settled("obj").await;
        assert_eq!(diffs(stage, "quick"), [changed(1, 2), changed(2, 3)]);
        assert_eq!(diffs(stage, "slow"), [changed(1, 2), changed(1, 3)]);
    });
}

#[test]
fn change_during_resuming_is_followed_by_an_update() {
    everywhere(async |stage| {
        let operator = stage.run([on::create("made")]).await;
        stage.create_handled("obj", json!({"field": 1})).await;
        operator.stop().await;
        let quick = on::resume("quick");
        let handlers = [
            quick.also(on::update("quick")),
            quick,
            slow(on::resume("slow")),
        ];
        let _operator = stage.run(handlers).await;
        until_waiting(stage).await;
        set_field(stage, 2).await;
        stage.until_settled("obj").await;
        assert_eq!(reasons(stage, "quick"), ["resume", "update"]);
        assert_eq!(diffs(stage, "quick")[1], changed(1, 2));
        assert_eq!(stage.journal.count("slow"), 2);
    });
}

#[test]
fn change_while_sub_handlers_wait_is_seen_by_the_finished_ones() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            register(&call, &on::sub("quick"));
            register(&call, &slow(on::sub("slow")));
            done()
        });
        let _operator = stage.run([make.also(on::update("make")), make]).await;
        stage.create("obj", json!({"field": 1})).await;
        stage
            .until("obj", "waiting", |object| {
                progress(object, "make.quick")["success"] == true
                    && progress(object, "make.slow")["retries"] == 1
            })
            .await;
        set_field(stage, 2).await;
        stage.until_settled("obj").await;
        assert_eq!(reasons(stage, "make/quick"), ["create", "update"]);
        assert_eq!(diffs(stage, "make/quick")[1], changed(1, 2));
        assert_eq!(reasons(stage, "make/slow"), ["create", "create"]);
        assert_eq!(reasons(stage, "make").last(), Some(&"update"));
    });
}

#[test]
fn change_that_is_reverted_meanwhile_is_reverted_for_all_handlers() {
    everywhere(async |stage| {
        let slow = on::update("slow").does(|call| async move {
            if call.body().spec()["field"] == 2 {
                return temporary("not yet", 600.0);
            }
            done()
        });
        let _operator = stage.run([on::update("quick"), slow]).await;
        stage.create_handled("obj", json!({"field": 1})).await;
        set_field(stage, 2).await;
        until_waiting(stage).await;
        set_field(stage, 1).await;
        stage.until_settled("obj").await;
        let both = [changed(1, 2), changed(2, 1)];
        assert_eq!(diffs(stage, "quick"), both);
        assert_eq!(diffs(stage, "slow"), both);
    });
}

#[test]
fn change_before_a_reversion_is_not_news_for_handlers_that_never_saw_it() {
    everywhere(async |stage| {
        let handlers = [
            on::create("quick"),
            slow(on::create("slow")),
            on::update("updated"),
        ];
        let operator = stage.run(handlers).await;
        stage.create("obj", json!({"field": 1})).await;
        until_waiting(stage).await;
        operator.stop().await;
        set_field(stage, 2).await;
        set_field(stage, 1).await;
        operator.start().await;
        stage.until_settled("obj").await;
        assert_eq!(stage.journal.ids(), ["quick", "slow", "slow"]);
    });
}

#[test]
fn change_while_the_operator_restarts_is_seen_by_finished_handlers() {
    everywhere(async |stage| {
        let operator = stage
            .run([on::update("quick"), slow(on::update("slow"))])
            .await;
        stage.create_handled("obj", json!({"field": 1})).await;
        set_field(stage, 2).await;
        until_waiting(stage).await;
        operator.kill().await;
        set_field(stage, 3).await;
        operator.start().await;
        stage.until_settled("obj").await;
        assert_eq!(diffs(stage, "quick"), [changed(1, 2), changed(2, 3)]);
        assert_eq!(diffs(stage, "slow"), [changed(1, 2), changed(1, 3)]);
    });
}

#[test]
fn change_during_a_deletion_repeats_nothing() {
    everywhere(async |stage| {
        let handlers = [
            on::delete("quick"),
            slow(on::delete("slow")),
            on::update("updated"),
        ];
        let _operator = stage.run(handlers).await;
        stage.create_handled("obj", json!({"field": 1})).await;
        stage.delete("obj").await;
        until_waiting(stage).await;
        set_field(stage, 2).await;
        stage.until_gone("obj").await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["quick", "slow", "slow"]);
    });
}

#[test]
fn deletion_ends_the_debts_of_an_update() {
    everywhere(async |stage| {
        let slow = on::update("slow").does(|_| async { temporary("not yet", 600.0) });
        let _operator = stage
            .run([on::update("quick"), slow, on::delete("deleted")])
            .await;
        stage.create_handled("obj", json!({"field": 1})).await;
        set_field(stage, 2).await;
        until_waiting(stage).await;
        set_field(stage, 3).await;
        stage.settled().await;
        stage.delete_wholly("obj").await;
        stage.settled().await;
        assert_eq!(stage.journal.count("quick"), 1);
        assert_eq!(stage.journal.ids().last().unwrap(), "deleted");
    });
}

#[test]
fn changes_by_the_patch_of_a_handler_are_not_news() {
    everywhere(async |stage| {
        let quick = on::create("quick").does(|call| async move {
            call.patch.with(|patch| {
                patch.set(&FieldPath::parse("spec.merged"), json!(1));
                patch.add_fn(PatchFn::new("put", |body: &mut Value| {
                    body["spec"]["put"] = json!(1);
                    Ok(())
                }));
            });
            done()
        });
        let _operator = stage
            .run([quick, slow(on::create("slow")), on::update("updated")])
            .await;
        let object = stage.create_handled("obj", json!({"field": 1})).await;
        stage.settled().await;
        let spec = json!({"field": 1, "merged": 1, "put": 1});
        assert_eq!(object["spec"], spec);
        assert_eq!(stage.journal.ids(), ["quick", "slow", "slow"]);
    });
}

#[test]
fn handlers_of_one_field_see_missed_changes_of_that_field_only() {
    everywhere(async |stage| {
        let handlers = [
            on::update("quick"),
            on::update("one").field("spec.one"),
            on::update("two").field("spec.two"),
            slow(on::update("slow")),
        ];
        let _operator = stage.run(handlers).await;
        stage
            .create_handled("obj", json!({"one": 1, "two": 1, "field": 1}))
            .await;
        let patch = json!({"spec": {"one": 2, "two": 2, "field": 2}});
        stage.merge("obj", patch).await;
        until_waiting(stage).await;
        stage.merge("obj", json!({"spec": {"one": 3}})).await;
        stage.until_settled("obj").await;
        let one = stage.journal.of("one/spec.one");
        let seen: Vec<_> = one.iter().map(|entry| (&entry.old, &entry.new)).collect();
        assert_eq!(seen, [(&json!(1), &json!(2)), (&json!(2), &json!(3))]);
        assert_eq!(stage.journal.count("two/spec.two"), 1);
        let missed = json!([["change", ["spec", "one"], 2, 3]]);
        assert_eq!(diffs(stage, "quick")[1..], [missed]);
        assert_eq!(stage.journal.count("slow"), 2);
    });
}

#[test]
fn losing_updates_as_the_original_does_is_a_setting() {
    everywhere(async |stage| {
        let _operator = stage
            .operator([on::update("quick"), slow(on::update("slow"))])
            .settings(|settings| settings.persistence.lost_updates = true)
            .start()
            .await;
        stage.create_handled("obj", json!({"field": 1})).await;
        set_field(stage, 2).await;
        until_waiting(stage).await;
        set_field(stage, 3).await;
        stage.until_settled("obj").await;
        assert_eq!(diffs(stage, "quick"), [changed(1, 2)]);
        assert_eq!(diffs(stage, "slow"), [changed(1, 2), changed(1, 3)]);
        let writes = stage.writes();
        assert!(!format!("{writes:?}").contains("attempted"), "{writes:#?}");
    });
}

#[test]
fn attempted_essences_are_removed_when_the_setting_is_changed() {
    sandboxed(async |stage| {
        let handlers = || [on::create("quick"), slow(on::create("slow"))];
        let first = stage.run(handlers()).await;
        stage.create("obj", json!({"field": 1})).await;
        let object = until_waiting(stage).await;
        assert_ne!(annotation(&object, ATTEMPTED), "");
        first.kill().await;
        let _second = stage
            .operator(handlers())
            .settings(|settings| settings.persistence.lost_updates = true)
            .start()
            .await;
        stage.until_settled("obj").await;
        assert_eq!(stage.journal.ids(), ["quick", "slow", "slow"]);
    });
}

/// A diff-base storage that fails once.
#[derive(Debug, Default)]
struct FailingOnce {
    storage: AnnotationsDiffBaseStorage,
    has_failed: AtomicBool,
}

impl DiffBaseStorage for FailingOnce {
    fn strip(&self, body: &Body, essence: &mut Value) {
        self.storage.strip(body, essence);
    }

    fn naming(&self) -> Option<&KeyNaming> {
        Some(self.storage.naming())
    }

    fn fetch(&self, body: &Body) -> Result<Option<Value>, StorageError> {
        self.storage.fetch(body)
    }

    fn store(&self, body: &Body, patch: &mut Patch, essence: &Value) -> Result<(), StorageError> {
        if !self.has_failed.swap(true, Ordering::Relaxed) {
            return Err(StorageError::custom("no connection"));
        }
        self.storage.store(body, patch, essence)
    }
}

#[test]
fn change_before_the_diff_base_is_stored_is_followed_by_an_update() {
    sandboxed(async |stage| {
        let setup = stage.operator([on::create("quick"), on::update("updated")]);
        let _operator = setup
            .settings(|settings| {
                settings.persistence.diffbase_storage = Arc::new(FailingOnce::default());
                settings.queueing.error_delays = vec![std::time::Duration::from_secs(10)];
            })
            .start()
            .await;
        stage.create("obj", json!({"field": 1})).await;
        stage.pass(5.0).await;
        set_field(stage, 2).await;
        stage.pass(60.0).await;
        assert_eq!(stage.journal.ids(), ["quick", "updated"]);
        assert_eq!(diffs(stage, "updated"), [changed(1, 2)]);
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn attempted_essences_are_stored_beside_the_records_and_removed_with_them() {
    everywhere(async |stage| {
        let _operator = stage
            .run([on::create("quick"), slow(on::create("slow"))])
            .await;
        stage.create("obj", json!({"field": 1})).await;
        let object = until_waiting(stage).await;
        let stored: Value = serde_json::from_str(annotation(&object, ATTEMPTED)).unwrap();
        assert_eq!(stored["essences"], json!([{"spec": {"field": 1}}]));
        for id in ["quick", "slow"] {
            let attempt = &stored["attempts"][id];
            let record = progress(&object, id);
            assert_eq!(attempt["essence"], 0);
            assert_eq!(attempt["started"], record["started"]);
            assert_eq!(attempt["retries"], record["retries"]);
        }
        let object = stage.until_handled("obj").await;
        assert_eq!(own_annotations(&object), ["last-handled-configuration"]);
    });
}

#[test]
fn handling_in_one_cycle_stores_no_attempted_essences() {
    everywhere(async |stage| {
        let _operator = stage.run([on::create("made"), on::update("updated")]).await;
        stage.create_handled("obj", json!({"field": 1})).await;
        set_field(stage, 2).await;
        stage.until_settled("obj").await;
        let writes = stage.writes();
        assert_eq!(writes.len(), 2);
        assert!(!format!("{writes:?}").contains("attempted"), "{writes:#?}");
    });
}

#[test]
fn attempted_essences_have_the_prefix_of_the_diff_base() {
    everywhere(async |stage| {
        let _operator = stage
            .operator([on::update("quick"), slow(on::update("slow"))])
            .settings(|settings| {
                let storage = AnnotationsDiffBaseStorage::new("other.example.com").unwrap();
                settings.persistence.diffbase_storage = Arc::new(storage);
            })
            .start()
            .await;
        let base = "other.example.com/last-handled-configuration";
        let attempted = "other.example.com/attempted-essences";
        let handled = |field: i32| {
            move |object: &Value| {
                own_annotations(object).is_empty()
                    && annotation(object, base) == format!("{{\"spec\":{{\"field\":{field}}}}}\n")
            }
        };
        stage.create("obj", json!({"field": 1})).await;
        stage.until("obj", "handled", handled(1)).await;
        set_field(stage, 2).await;
        let object = until_waiting(stage).await;
        assert!(annotation(&object, attempted).contains("\"quick\""));
        assert_eq!(annotation(&object, ATTEMPTED), "");
        set_field(stage, 3).await;
        let object = stage.until("obj", "handled", handled(3)).await;
        assert_eq!(annotation(&object, attempted), "");
        stage.settled().await;
        assert_eq!(diffs(stage, "quick"), [changed(1, 2), changed(2, 3)]);
    });
}

#[test]
fn unreadable_attempted_essences_count_as_absent_and_are_removed() {
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let garbage = [
        "",
        "{",
        "null",
        "[1, 2]",
        r#"{"essences": {}, "attempts": []}"#,
        r#"{"essences": [], "attempts": {"quick": {"essence": 0, "retries": 1}}}"#,
        r#"{"essences": [1], "attempts": {"quick": {"essence": -1, "retries": "x"}, "slow": 5}}"#,
        r#"{"essences": [null], "attempts": {"quick": {"essence": 99999999999999999999}}}"#,
        &deep,
        &"x".repeat(200_000),
    ];
    for text in garbage {
        everywhere(async |stage| {
            let handlers = [
                on::create("quick"),
                slow(on::create("slow")),
                on::update("updated"),
            ];
            let _operator = stage.run(handlers).await;
            let annotations = json!({ATTEMPTED: text, "kopf.zalando.org/quick": success()});
            let parts = json!({"metadata": {"annotations": annotations}, "spec": {"field": 1}});
            stage.create_with("obj", parts).await;
            stage.until_settled("obj").await;
            assert_eq!(stage.journal.ids(), ["slow", "slow"], "{text:.50}");
        });
    }
}

#[test]
fn attempts_count_only_with_the_records_they_have_led_to() {
    for (retries, is_owed) in [(1, true), (2, false)] {
        everywhere(async |stage| {
            let handlers = [
                on::create("quick"),
                slow(on::create("slow")),
                on::update("updated"),
            ];
            let _operator = stage.run(handlers).await;
            let annotations = json!({
                ATTEMPTED: attempted(json!({"field": 0}), retries),
                "kopf.zalando.org/quick": success(),
            });
            let parts = json!({"metadata": {"annotations": annotations}, "spec": {"field": 1}});
            stage.create_with("obj", parts).await;
            stage.until_settled("obj").await;
            let updates = diffs(stage, "updated");
            let expected: Vec<_> = is_owed.then(|| changed(0, 1)).into_iter().collect();
            assert_eq!(updates, expected);
            assert_eq!(stage.journal.count("quick"), 0);
        });
    }
}

#[test]
fn records_of_the_original_count_as_current() {
    everywhere(async |stage| {
        let handlers = [
            on::create("quick"),
            slow(on::create("slow")),
            on::update("updated"),
        ];
        let _operator = stage.run(handlers).await;
        let annotations = json!({"kopf.zalando.org/quick": success()});
        let parts = json!({"metadata": {"annotations": annotations}, "spec": {"field": 1}});
        stage.create_with("obj", parts).await;
        let object = until_waiting(stage).await;
        assert!(!annotation(&object, ATTEMPTED).contains("\"quick\""));
        set_field(stage, 2).await;
        stage.until_settled("obj").await;
        assert_eq!(stage.journal.ids(), ["slow", "slow"]);
    });
}

#[test]
fn essences_that_are_too_large_for_the_annotation_are_kept_in_memory() {
    everywhere(async |stage| {
        let _operator = stage
            .run([on::update("quick"), slow(on::update("slow"))])
            .await;
        let large = "x".repeat(150_000);
        stage
            .create_handled("obj", json!({"field": 1, "large": large}))
            .await;
        set_field(stage, 2).await;
        let object = until_waiting(stage).await;
        assert_eq!(annotation(&object, ATTEMPTED), "");
        set_field(stage, 3).await;
        stage.until_settled("obj").await;
        assert_eq!(diffs(stage, "quick"), [changed(1, 2), changed(2, 3)]);
        let warnings = stage.log.of("obj").into_iter();
        let warnings = warnings.filter(|record| record.level == tracing::Level::WARN);
        let warnings: Vec<_> = warnings.map(|record| record.message).collect();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].contains("too large for an annotation"),
            "{warnings:?}"
        );
    });
}

#[test]
fn many_changes_while_a_handler_waits_are_one_update_in_the_end() {
    sandboxed(async |stage| {
        let slow = on::update("slow").does(|call| async move {
            if call.retry < 10 {
                return temporary("not yet", 60.0);
            }
            done()
        });
        let _operator = stage.run([on::update("quick"), slow]).await;
        stage.create_settled("obj", json!({"field": 0})).await;
        for value in 1..=8 {
            set_field(stage, value).await;
            stage.pass(61.0).await;
        }
        stage.pass(1000.0).await;
        assert!(is_handled(&stage.get("obj").await));
        assert_eq!(diffs(stage, "quick"), [changed(0, 1), changed(1, 8)]);
        assert_eq!(stage.journal.count("slow"), 11);
    });
}

/// Normalises a quantity, as API servers do.
fn normalise(payload: &mut Value) {
    if payload["spec"]["cpu"] == "1000m" {
        payload["spec"]["cpu"] = json!("1");
    }
}

#[test]
fn normalised_values_are_not_set_again_and_again() {
    sandboxed(async |stage| {
        let setting = |handler: Declaration| {
            handler.does(|call| async move {
                let path = FieldPath::parse("spec.cpu");
                call.patch.with(|patch| patch.set(&path, json!("1000m")));
                done()
            })
        };
        let handlers = [
            setting(on::create("quick")),
            slow(on::create("slow")),
            setting(on::update("quick_update")),
            slow(on::update("slow_update")),
        ];
        let setup = stage.operator(handlers).altering(normalise);
        let _operator = setup.start().await;
        stage.create("obj", json!({"field": 1})).await;
        stage.pass(600.0).await;
        let object = stage.get("obj").await;
        assert_eq!(object["spec"]["cpu"], "1");
        assert!(is_handled(&object), "{object:#}");
        assert_eq!(stage.journal.count("quick"), 1);
        assert_eq!(stage.journal.count("quick_update"), 1);
    });
}
