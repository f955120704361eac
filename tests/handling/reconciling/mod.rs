//! Reconcile handlers: their triggers, periods, requests, retries, and the end of their objects.

mod combining;
mod deleting;
mod retrying;

use kopf_core::field::FieldPath;
use kopf_core::filter::MetaCriterion;
use kopf_engine::invocation::Call;
use serde_json::{Value, json};

use crate::front::{Declaration, done, on, requeued, temporary};
use crate::leading::shard;
use crate::owning::{change_child, create_child, delete_child};
use crate::stage::{Stage, everywhere, finalizers, own_annotations, progress, sandboxed};

const NONE: [&str; 0] = [];

/// Returns a handler that fails in its first calls.
fn failing(failures: u32, seconds: f64) -> Declaration {
    on::reconcile("sync").does(move |call: Call| async move {
        if call.retry < failures {
            return temporary("not yet", seconds);
        }
        done()
    })
}

/// Returns a handler that writes the number of children into the status.
fn counting() -> Declaration {
    on::reconcile("sync")
        .owns("configmaps")
        .does(|call: Call| async move {
            let count = json!(call.children().len());
            let path = FieldPath::parse("status.children");
            call.patch.with(|patch| patch.set(&path, count));
            done()
        })
}

fn triggers(stage: &Stage) -> Vec<String> {
    stage.journal.triggers("sync")
}

/// Changes the spec of an object, and waits until the operator has settled.
async fn changed(stage: &Stage, name: &str, n: u32) {
    stage.merge(name, json!({"spec": {"n": n}})).await;
    stage.settled().await;
}

async fn called(stage: &Stage, count: usize) {
    let is_called = || stage.journal.count("sync") >= count;
    stage.wait_for("the call", is_called).await;
    stage.settled().await;
}

#[test]
fn creations_and_updates_are_reconciled_without_a_trace() {
    everywhere(async |stage| {
        let _operator = stage.run([on::reconcile("sync")]).await;
        stage.create("obj", json!({"n": 0})).await;
        called(stage, 1).await;
        changed(stage, "obj", 1).await;
        called(stage, 2).await;
        assert_eq!(triggers(stage), ["created", "updated"]);
        assert_eq!(stage.journal.of("sync")[1].body["spec"]["n"], 1);
        stage.merge_status("obj", json!({"status": {"n": 1}})).await;
        stage.settled().await;
        assert_eq!(triggers(stage).len(), 2, "the status is not desired state");
        let object = stage.get("obj").await;
        assert_eq!(own_annotations(&object), NONE);
        assert_eq!(finalizers(&object), NONE);
        assert!(stage.writes().is_empty());
        stage.delete_and_wait("obj").await;
        stage.settled().await;
        assert_eq!(triggers(stage).len(), 2);
    });
}

#[test]
fn objects_are_resumed_after_a_restart() {
    everywhere(async |stage| {
        stage.create("obj", json!({"n": 0})).await;
        let operator = stage.run([on::reconcile("sync")]).await;
        called(stage, 1).await;
        operator.stop().await;
        changed(stage, "obj", 1).await;
        operator.start().await;
        called(stage, 2).await;
        assert_eq!(triggers(stage), ["resumed", "resumed"]);
        assert!(stage.writes().is_empty());
    });
}

#[test]
fn repeated_listings_are_no_triggers() {
    sandboxed(async |stage| {
        let sync = on::reconcile("sync").owns("configmaps");
        let _operator = stage.run([sync]).await;
        let owner = stage.create("obj", json!({})).await;
        create_child(stage, "a", &owner).await;
        stage.pass(10.0).await;
        let before = triggers(stage);
        stage.relist();
        stage.pass(60.0).await;
        assert_eq!(triggers(stage), before);
    });
}

#[test]
fn changes_of_children_are_triggers() {
    everywhere(async |stage| {
        let sync = on::reconcile("sync").owns("configmaps");
        let _operator = stage.run([sync]).await;
        let owner = stage.create("obj", json!({})).await;
        stage.create("other", json!({})).await;
        called(stage, 2).await;
        create_child(stage, "a", &owner).await;
        called(stage, 3).await;
        change_child(stage, "a", json!({"n": "1"})).await;
        called(stage, 4).await;
        delete_child(stage, "a").await;
        called(stage, 5).await;
        let calls = stage.journal.of("sync");
        let triggered: Vec<_> = calls[2..].iter().map(|call| &*call.triggers).collect();
        assert_eq!(triggered, ["child", "child", "child"]);
        assert!(calls[2..].iter().all(|call| call.object == "obj"));
    });
}

#[test]
fn children_are_known_before_the_first_call() {
    sandboxed(async |stage| {
        let owner = stage.create("obj", json!({})).await;
        for name in ["a", "b", "c"] {
            create_child(stage, name, &owner).await;
        }
        let sync = counting();
        let slow = kopf_sandbox::fault::Fault::latency(std::time::Duration::from_secs(20))
            .verb(kopf_sandbox::fault::Verb::List)
            .kind("configmaps");
        stage.faults().inject(slow.times(1));
        let _operator = stage.run([sync]).await;
        stage.pass(60.0).await;
        assert_eq!(triggers(stage), ["resumed"]);
        assert_eq!(stage.get("obj").await["status"]["children"], 3);
    });
}

#[test]
fn periods_are_counted_from_the_end_of_the_last_call() {
    sandboxed(async |stage| {
        let sync = on::reconcile("sync")
            .every(100.0)
            .does(|_: Call| async move {
                tokio::time::sleep(std::time::Duration::from_secs(30)).await;
                done()
            });
        let _operator = stage.run([sync]).await;
        let began = stage.now();
        stage.create("obj", json!({})).await;
        stage.pass(300.0).await;
        assert_eq!(triggers(stage), ["created", "period", "period"]);
        let calls = stage.journal.of("sync");
        let times = calls.iter().map(|call| call.at.duration_since(began));
        let times: Vec<i64> = times.map(|time| time.as_secs()).collect();
        assert_eq!(times, [0, 130, 260]);
        // A change begins another period.
        changed(stage, "obj", 1).await;
        stage.sleep(95.0).await;
        assert_eq!(triggers(stage).len(), 4);
        stage.sleep(10.0).await;
        assert_eq!(triggers(stage)[3..], ["updated", "period"]);
        assert!(stage.writes().is_empty());
    });
}

#[test]
fn handlers_request_their_next_call() {
    sandboxed(async |stage| {
        let sync = on::reconcile("sync")
            .every(1000.0)
            .does(|call: Call| async move {
                if call.triggers.to_string() == "requeued" {
                    return done();
                }
                requeued(&call, 50.0)
            });
        let operator = stage.run([sync]).await;
        stage.create("obj", json!({})).await;
        stage.pass(45.0).await;
        assert_eq!(triggers(stage), ["created"]);
        stage.pass(10.0).await;
        assert_eq!(triggers(stage), ["created", "requeued"]);
        stage.pass(900.0).await;
        assert_eq!(triggers(stage).len(), 2, "requests are not repeated");
        stage.pass(100.0).await;
        assert_eq!(triggers(stage)[2..], ["period"]);
        // A change replaces the request.
        changed(stage, "obj", 1).await;
        stage.pass(60.0).await;
        assert_eq!(triggers(stage)[3..], ["updated", "requeued"]);
        changed(stage, "obj", 2).await;
        operator.restart().await;
        stage.settled().await;
        assert_eq!(triggers(stage)[5..], ["updated", "resumed"]);
    });
}

#[test]
fn triggers_during_a_call_lead_to_one_call() {
    sandboxed(async |stage| {
        let sync = on::reconcile("sync")
            .owns("configmaps")
            .every(5.0)
            .does(|_: Call| async move {
                tokio::time::sleep(std::time::Duration::from_secs(10)).await;
                done()
            });
        let operator = stage.run([sync]).await;
        let owner = stage.create("obj", json!({"n": 0})).await;
        stage.sleep(1.0).await;
        assert_eq!(stage.journal.count("sync"), 1);
        for n in 1..5 {
            stage.merge("obj", json!({"spec": {"n": n}})).await;
            create_child(stage, &format!("child-{n}"), &owner).await;
        }
        stage.sleep(12.0).await;
        assert_eq!(triggers(stage), ["created", "updated, child"]);
        assert_eq!(stage.journal.of("sync")[1].body["spec"]["n"], 4);
        operator.stop().await;
    });
}

#[test]
fn own_changes_are_no_triggers() {
    sandboxed(async |stage| {
        let sync = on::reconcile("sync").does(|call: Call| async move {
            let next = call.body().spec()["calls"].as_u64().unwrap_or(0) + 1;
            let path = FieldPath::parse("spec.calls");
            call.patch.with(|patch| patch.set(&path, json!(next)));
            done()
        });
        let _operator = stage.run([sync]).await;
        stage.create("obj", json!({"n": 0})).await;
        stage.pass(10.0).await;
        assert_eq!(triggers(stage), ["created"]);
        changed(stage, "obj", 1).await;
        assert_eq!(triggers(stage), ["created", "updated"]);
        assert_eq!(stage.get("obj").await["spec"]["calls"], 2);
        assert_eq!(own_annotations(&stage.get("obj").await), NONE);
    });
}

#[test]
fn objects_are_reconciled_while_they_match() {
    sandboxed(async |stage| {
        let sync = failing(1, 1000.0).label("on", MetaCriterion::Present);
        let _operator = stage.run([sync]).await;
        stage.create("obj", json!({})).await;
        stage.pass(10.0).await;
        assert_eq!(stage.journal.count("sync"), 0);
        let labelled = |value: Value| json!({"metadata": {"labels": {"on": value}}});
        stage.merge("obj", labelled(json!("yes"))).await;
        stage.pass(10.0).await;
        assert_eq!(triggers(stage), ["updated"]);
        assert_eq!(own_annotations(&stage.get("obj").await), ["sync"]);
        stage.merge("obj", labelled(Value::Null)).await;
        stage.pass(2000.0).await;
        assert_eq!(triggers(stage).len(), 1);
        assert_eq!(own_annotations(&stage.get("obj").await), NONE);
    });
}

#[test]
fn paused_operators_do_not_reconcile() {
    sandboxed(async |stage| {
        stage.define_peerings().await;
        stage.create_peering("default").await;
        let _operator = stage
            .operator([on::reconcile("sync").every(100.0)])
            .peer("me", 0)
            .start()
            .await;
        stage.create("obj", json!({"n": 0})).await;
        stage.create("same", json!({})).await;
        stage.pass(10.0).await;
        stage.put_peer("boss", 100, 1_000_000, 0).await;
        stage.settled().await;
        stage.merge("obj", json!({"spec": {"n": 1}})).await;
        stage.pass(1000.0).await;
        assert_eq!(triggers(stage), ["created", "created"]);
        stage.remove_peer("boss").await;
        stage.settled().await;
        let mut later = triggers(stage).split_off(2);
        later.sort();
        assert_eq!(later, ["period", "updated, period"]);
    });
}

#[test]
fn objects_that_change_the_replica_are_resumed() {
    sandboxed(async |stage| {
        let sync = || on::reconcile("sync").owns("configmaps");
        // Objects are divided by their random uids: of so many, each replica gets some.
        let names: Vec<_> = ('a'..='z').map(String::from).collect();
        let first = shard(stage, 2, [sync()]).start().await;
        for name in &names {
            stage.create(name, json!({})).await;
        }
        stage.pass(60.0).await;
        let mut seen = triggers(stage);
        seen.retain(|one| one == "created" || one == "resumed");
        assert_eq!(seen.len(), names.len());
        let second = shard(stage, 2, [sync()]).start().await;
        stage.pass(120.0).await;
        let moved = stage.journal.count("sync") - names.len();
        assert!(moved > 0 && moved < names.len(), "{moved}");
        assert!(
            triggers(stage)[names.len()..]
                .iter()
                .all(|one| one == "resumed")
        );
        // Children can belong to other replicas than their owners.
        let before = stage.journal.count("sync");
        for name in &names {
            let owner = stage.get(name).await;
            create_child(stage, &format!("child-of-{name}"), &owner).await;
        }
        stage.pass(60.0).await;
        let calls = stage.journal.of("sync").split_off(before);
        let mut owners: Vec<_> = calls.iter().map(|call| call.object.as_str()).collect();
        owners.sort_unstable();
        assert_eq!(owners, names);
        assert!(calls.iter().all(|call| call.triggers == "child"));
        first.stop().await;
        second.stop().await;
    });
}

#[test]
fn handlers_with_one_id_are_called_for_their_own_objects() {
    sandboxed(async |stage| {
        let sync = |size: &'static str| {
            let sync = on::reconcile("sync").label("size", MetaCriterion::Literal(size.into()));
            sync.does(move |call: Call| async move {
                let path = FieldPath::parse("status.by");
                call.patch.with(|patch| patch.set(&path, json!(size)));
                done()
            })
        };
        let _operator = stage.run([sync("small"), sync("large")]).await;
        for size in ["large", "small"] {
            let parts = json!({"metadata": {"labels": {"size": size}}});
            stage.create_with(size, parts).await;
            stage.pass(10.0).await;
            assert_eq!(stage.get(size).await["status"]["by"], size);
        }
    });
}

async fn request(stage: &Stage, name: &str, handlers: &[&str], requested: &str) {
    let request = json!({"handlers": handlers, "requested": requested});
    let key = "kopf.zalando.org/retrigger-request";
    let patch = json!({"metadata": {"annotations": {key: request.to_string()}}});
    stage.merge(name, patch).await;
    stage.settled().await;
}

#[test]
fn requested_calls_are_made_once() {
    everywhere(async |stage| {
        let _operator = stage.run([on::reconcile("sync")]).await;
        stage.create("obj", json!({})).await;
        called(stage, 1).await;
        request(stage, "obj", &["sync"], "first").await;
        called(stage, 2).await;
        assert_eq!(triggers(stage), ["created", "requested"]);
        assert_eq!(own_annotations(&stage.get("obj").await), NONE);
        request(stage, "obj", &["other"], "second").await;
        let ignored = "The request to retrigger [other] is ignored";
        let is_logged = || stage.log.has("obj", ignored);
        stage.wait_for("the warning", is_logged).await;
        assert_eq!(own_annotations(&stage.get("obj").await), NONE);
        assert_eq!(triggers(stage).len(), 2);
    });
}

#[test]
fn requested_calls_begin_new_attempts() {
    sandboxed(async |stage| {
        let sync = on::reconcile("sync").does(|_: Call| async move { temporary("not yet", 100.0) });
        let make = on::create("make");
        let _operator = stage.run([sync, make]).await;
        stage.create("obj", json!({})).await;
        stage.pass(250.0).await;
        request(stage, "obj", &["sync", "make"], "first").await;
        stage.pass(50.0).await;
        let calls = stage.journal.of("sync").into_iter();
        let retries: Vec<u32> = calls.map(|call| call.retry).collect();
        assert_eq!(retries, [0, 1, 2, 0]);
        assert_eq!(triggers(stage)[3], "created, requested");
        assert_eq!(stage.journal.count("make"), 2);
        assert_eq!(progress(&stage.get("obj").await, "sync")["retries"], 1);
        let requests = own_annotations(&stage.get("obj").await).len();
        assert_eq!(requests, 2, "the record and the diff-base");
    });
}

#[test]
fn children_that_leave_are_triggers() {
    everywhere(async |stage| {
        let sync = counting();
        let child = on::child("observe", "configmaps");
        let _operator = stage.run([sync, child]).await;
        let owner = stage.create("obj", json!({})).await;
        called(stage, 1).await;
        create_child(stage, "a", &owner).await;
        called(stage, 2).await;
        assert_eq!(stage.get("obj").await["status"]["children"], 1);
        let path = stage.api.ns_path("configmaps/a");
        let orphan = json!({"metadata": {"ownerReferences": null}});
        stage.api.merged(&path, &orphan).await;
        called(stage, 3).await;
        assert_eq!(triggers(stage), ["created", "child", "child"]);
        assert_eq!(stage.get("obj").await["status"]["children"], 0);
        assert_eq!(stage.journal.count("observe"), 1, "it is no child any more");
        change_child(stage, "a", json!({"n": "1"})).await;
        stage.settled().await;
        assert_eq!(triggers(stage).len(), 3);
    });
}

#[test]
fn requests_without_a_delay_are_no_busy_loop() {
    sandboxed(async |stage| {
        let sync = on::reconcile("sync").does(|call: Call| async move { requeued(&call, 0.0) });
        let operator = stage.run([sync]).await;
        stage.create("obj", json!({})).await;
        stage.sleep(10.5).await;
        assert_eq!(stage.journal.count("sync"), 11);
        operator.stop().await;
    });
}
