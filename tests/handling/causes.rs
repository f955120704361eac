//! Detection of causes, and object state within one process.

use kopf_core::cause::Reason;
use serde_json::{Value, json};

use crate::front::{Declaration, done, on, temporary};
use crate::stage::{everywhere, is_handled, last_handled, own_annotations, progress, sandboxed};

/// Returns one handler of each kind of change except deletion.
fn all() -> Vec<Declaration> {
    vec![
        on::create("created"),
        on::update("updated"),
        on::resume("resumed"),
    ]
}

#[test]
fn new_object_is_only_a_creation() {
    everywhere(async |stage| {
        let _operator = stage.run(all()).await;
        let object = stage.create_handled("obj", json!({"field": "value"})).await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["created"]);
        let entry = stage.journal.only("created");
        assert_eq!(entry.reason, Some(Reason::Create));
        assert_eq!(entry.old, Value::Null);
        assert_eq!(entry.new, json!({"spec": {"field": "value"}}));
        assert_eq!(
            entry.diff,
            json!([["add", [], null, {"spec": {"field": "value"}}]])
        );
        assert!(!entry.initial);
        assert_eq!(last_handled(&object), json!({"spec": {"field": "value"}}));
    });
}

#[test]
fn listed_object_without_a_diff_base_is_a_creation() {
    everywhere(async |stage| {
        stage.create("obj", json!({"field": "value"})).await;
        let _operator = stage.run(all()).await;
        stage.until_settled("obj").await;
        assert_eq!(
            stage.journal.ids(),
            ["created"],
            "creation never implies resuming"
        );
        assert!(!stage.journal.only("created").initial);
    });
}

#[test]
fn change_is_an_update_relative_to_the_diff_base() {
    everywhere(async |stage| {
        let _operator = stage.run(all()).await;
        stage
            .create_handled("obj", json!({"field": 1, "gone": 2}))
            .await;
        stage
            .merge(
                "obj",
                json!({"spec": {"field": 3, "gone": null, "come": 4}}),
            )
            .await;
        stage.until_settled("obj").await;
        assert_eq!(stage.journal.ids(), ["created", "updated"]);
        let entry = stage.journal.only("updated");
        assert_eq!(entry.reason, Some(Reason::Update));
        assert_eq!(entry.old, json!({"spec": {"field": 1, "gone": 2}}));
        assert_eq!(entry.new, json!({"spec": {"field": 3, "come": 4}}));
        let diff = json!([
            ["add", ["spec", "come"], null, 4],
            ["remove", ["spec", "gone"], 2, null],
            ["change", ["spec", "field"], 1, 3],
        ]);
        assert_eq!(entry.diff, diff);
    });
}

#[test]
fn unchanged_object_is_resumed_once_per_process() {
    everywhere(async |stage| {
        let operator = stage.run(all()).await;
        stage.create_handled("obj", json!({"field": 1})).await;
        stage.settled().await;
        operator.restart().await;
        stage
            .wait_for("resuming", || stage.journal.count("resumed") > 0)
            .await;
        stage.settled().await;
        let resumed = stage.journal.only("resumed");
        assert_eq!(resumed.reason, Some(Reason::Resume));
        assert!(resumed.initial);
        assert_eq!(resumed.old, resumed.new);
        assert_eq!(resumed.diff, json!([]));

        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.until_settled("obj").await;
        assert_eq!(stage.journal.ids(), ["created", "resumed", "updated"]);
    });
}

#[test]
fn relisting_does_not_resume() {
    sandboxed(async |stage| {
        let operator = stage.run(all()).await;
        stage.create_settled("obj", json!({"field": 1})).await;
        operator.restart().await;
        stage.settled().await;
        assert_eq!(stage.journal.count("resumed"), 1);
        stage.relist();
        stage.pass(10.0).await;
        assert_eq!(stage.faults().injected().errors, 1);
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["created", "resumed", "updated"]);
    });
}

#[test]
fn change_during_downtime_is_an_update_with_resuming() {
    everywhere(async |stage| {
        let operator = stage.run(all()).await;
        stage.create_handled("obj", json!({"field": 1})).await;
        operator.stop().await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        operator.start().await;
        stage.until_settled("obj").await;
        let calls = stage.journal.reasons();
        assert_eq!(
            calls[1..],
            [
                ("updated".to_owned(), "update"),
                ("resumed".to_owned(), "update")
            ]
        );
        assert!(stage.journal.only("updated").initial);
        assert!(stage.journal.only("resumed").initial);
    });
}

#[test]
fn objects_in_deletion_are_resumed_only_if_requested() {
    everywhere(async |stage| {
        let stuck = on::delete("stuck").does(|_| async { temporary("stuck", 3600.0) });
        let operator = stage
            .run([
                on::create("created"),
                stuck,
                on::resume("resumed"),
                on::resume_deleted("resumed_deleted"),
            ])
            .await;
        stage.create_handled("obj", json!({})).await;
        stage.delete("obj").await;
        stage
            .until("obj", "tried", |object| {
                progress(object, "stuck")["retries"] == 1
            })
            .await;
        stage.settled().await;
        operator.restart().await;
        stage
            .wait_for("resuming", || stage.journal.count("resumed_deleted") > 0)
            .await;
        stage.settled().await;
        assert_eq!(stage.journal.count("resumed"), 0);
        let entry = stage.journal.only("resumed_deleted");
        assert_eq!(entry.reason, Some(Reason::Delete));
        assert!(entry.initial);
        assert_eq!(
            stage.journal.count("stuck"),
            1,
            "its retry is due in an hour"
        );
    });
}

#[test]
fn changes_of_the_status_and_of_system_metadata_are_ignored() {
    everywhere(async |stage| {
        let _operator = stage.run(all()).await;
        stage.create_handled("obj", json!({})).await;
        stage
            .merge_status("obj", json!({"status": {"noise": 1}}))
            .await;
        let finalizers = json!({"metadata": {"finalizers": ["example.com/other"]}});
        stage.merge("obj", finalizers).await;
        stage
            .wait_for("the change to be logged", || {
                stage
                    .log
                    .has("obj", "Something has changed, but we are not interested")
            })
            .await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["created"]);
        assert_eq!(stage.writes().len(), 1);
    });
}

#[test]
fn deletion_without_a_finalizer_is_only_logged() {
    everywhere(async |stage| {
        let _operator = stage.run(all()).await;
        let metadata = json!({"finalizers": ["example.com/other"]});
        stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        stage.until_settled("obj").await;
        let writes = stage.writes().len();
        stage.delete("obj").await;
        stage
            .wait_for("the deletion to be logged", || {
                stage.log.has(
                    "obj",
                    "Deletion, but we are done with it, and we do not care.",
                )
            })
            .await;
        stage
            .merge("obj", json!({"metadata": {"finalizers": null}}))
            .await;
        stage.until_gone("obj").await;
        stage
            .wait_for("the removal to be logged", || {
                stage
                    .log
                    .has("obj", "Deleted, really deleted, and we are notified.")
            })
            .await;
        assert_eq!(stage.journal.ids(), ["created"]);
        assert_eq!(stage.writes().len(), writes);
    });
}

#[test]
fn recreated_object_is_a_new_object() {
    everywhere(async |stage| {
        let operator = stage.run(all()).await;
        stage.create_handled("obj", json!({"field": 1})).await;
        operator.restart().await;
        stage
            .wait_for("resuming", || stage.journal.count("resumed") > 0)
            .await;
        stage.delete_and_wait("obj").await;
        stage.create_handled("obj", json!({"field": 1})).await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["created", "resumed", "created"]);
    });
}

#[test]
fn change_reverted_during_a_retry_is_followed_by_a_reverse_update() {
    sandboxed(async |stage| {
        let failing = on::update("updated").does(|call| async move {
            if call.body().spec()["field"] == 2 {
                return temporary("not yet", 60.0);
            }
            done()
        });
        let _operator = stage.run([on::create("created"), failing]).await;
        stage.create_settled("obj", json!({"field": 1})).await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.settled().await;
        stage.merge("obj", json!({"spec": {"field": 1}})).await;
        stage.pass(300.0).await;
        let updates = stage.journal.of("updated");
        let diffs: Vec<_> = updates.iter().map(|entry| &entry.diff).collect();
        let change = |old, new| json!([["change", ["spec", "field"], old, new]]);
        assert_eq!(diffs, [&change(1, 2), &change(2, 1)]);
        let object = stage.get("obj").await;
        assert!(is_handled(&object), "{object:#}");
        let retries: Vec<_> = updates.iter().map(|entry| entry.retry).collect();
        assert_eq!(retries, [0, 0], "the reverse update is another cause");
    });
}

#[test]
fn creation_changed_during_a_retry_remains_a_creation() {
    sandboxed(async |stage| {
        let make = on::create("created").does(|call| async move {
            if call.retry == 0 {
                return temporary("not yet", 60.0);
            }
            done()
        });
        let _operator = stage.run([make, on::update("updated")]).await;
        stage.create_settled("obj", json!({"field": 1})).await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.pass(100.0).await;
        assert_eq!(stage.journal.ids(), ["created", "created"]);
        let last = stage.journal.all().pop().unwrap();
        assert_eq!(last.new, json!({"spec": {"field": 2}}));
        let object = stage.get("obj").await;
        assert_eq!(last_handled(&object), json!({"spec": {"field": 2}}));
        assert_eq!(own_annotations(&object).len(), 1);
    });
}

#[test]
fn resuming_is_retried_across_restarts() {
    sandboxed(async |stage| {
        let resumed = on::resume("resumed").does(|call| async move {
            if call.retry < 2 {
                return temporary("not yet", 60.0);
            }
            done()
        });
        let operator = stage.run([on::create("created"), resumed]).await;
        stage.create_settled("obj", json!({})).await;
        operator.restart().await;
        stage.settled().await;
        let object = stage.get("obj").await;
        assert_eq!(progress(&object, "resumed")["purpose"], "resume");
        operator.kill().await;
        operator.start().await;
        stage.pass(200.0).await;
        let retries: Vec<_> = stage
            .journal
            .of("resumed")
            .iter()
            .map(|e| e.retry)
            .collect();
        assert_eq!(retries, [0, 1, 2]);
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn unfinished_resuming_joins_an_update() {
    sandboxed(async |stage| {
        let resumed = on::resume("resumed").does(|call| async move {
            if call.retry < 1 {
                return temporary("not yet", 60.0);
            }
            done()
        });
        let operator = stage
            .run([on::create("created"), on::update("updated"), resumed])
            .await;
        stage.create_settled("obj", json!({"field": 1})).await;
        operator.restart().await;
        stage.settled().await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.pass(100.0).await;
        assert_eq!(stage.journal.count("updated"), 1);
        let resumed = stage.journal.of("resumed");
        let reasons: Vec<_> = resumed.iter().map(|e| (e.retry, e.reason)).collect();
        assert_eq!(
            reasons,
            [(0, Some(Reason::Resume)), (1, Some(Reason::Update))]
        );
        assert!(stage.log.has("obj", "Resuming is superseded by updating"));
        assert!(is_handled(&stage.get("obj").await));
    });
}
