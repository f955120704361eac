//! Reconcile handlers together with other handlers of the same objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kopf_core::field::FieldPath;
use kopf_core::trigger::Trigger;
use kopf_engine::invocation::Call;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{called, changed, failing, triggers};
use crate::front::{Declaration, done, on, temporary};
use crate::owning::create_child;
use crate::stage::{Stage, everywhere, is_handled, last_handled, progress, sandboxed};

#[test]
fn change_handlers_are_called_before_reconciliation() {
    sandboxed(async |stage| {
        let make = on::create("make").does(|call: Call| async move {
            let path = FieldPath::parse("spec.made");
            call.patch.with(|patch| patch.set(&path, json!(true)));
            done()
        });
        let handlers = [
            on::reconcile("sync").every(100.0).finalizer(),
            make,
            on::create("other"),
            on::update("change"),
            on::delete("drop"),
            on::timer("tick").interval(1000.0),
        ];
        let _operator = stage.run(handlers).await;
        stage.create("obj", json!({})).await;
        stage.pass(10.0).await;
        let mut ids = stage.journal.ids();
        ids.retain(|id| id != "tick");
        assert_eq!(ids, ["make", "other", "sync"]);
        assert_eq!(triggers(stage), ["created, updated"]);
        assert_eq!(stage.journal.only("sync").body["spec"]["made"], true);
        let object = stage.get("obj").await;
        assert!(is_handled(&object));
        assert_eq!(last_handled(&object)["spec"]["made"], true);
        stage.pass(100.0).await;
        assert_eq!(triggers(stage)[1..], ["period"]);
        stage.delete("obj").await;
        stage.pass(10.0).await;
        assert_eq!(triggers(stage)[2..], ["deleted"]);
        assert_eq!(stage.journal.count("drop"), 1);
        assert_eq!(stage.journal.count("tick"), 1);
        assert_eq!(stage.get("obj").await, Value::Null);
    });
}

#[test]
fn waiting_change_handlers_do_not_delay_reconciliation() {
    sandboxed(async |stage| {
        let make = on::create("make").does(|call: Call| async move {
            if call.retry < 1 {
                return temporary("not yet", 1000.0);
            }
            done()
        });
        let _operator = stage.run([make, failing(1, 50.0).every(200.0)]).await;
        stage.create("obj", json!({})).await;
        stage.pass(280.0).await;
        assert_eq!(stage.journal.count("make"), 1);
        let expected = ["created", "created, retried", "period"];
        assert_eq!(triggers(stage), expected);
        let object = stage.get("obj").await;
        assert_eq!(progress(&object, "make")["retries"], 1);
        stage.pass(1000.0).await;
        assert_eq!(stage.journal.count("make"), 2);
        assert!(last_handled(&stage.get("obj").await).is_object());
    });
}

#[test]
fn ends_of_causes_keep_the_records_of_reconciliation() {
    sandboxed(async |stage| {
        let sync = on::reconcile("sync").does(|call: Call| async move {
            if call.retry < 3 {
                return temporary("not yet", 1000.0);
            }
            done()
        });
        let _operator = stage
            .run([on::create("make"), on::update("change"), sync])
            .await;
        stage.create("obj", json!({"n": 0})).await;
        stage.pass(10.0).await;
        changed(stage, "obj", 1).await;
        stage.pass(10.0).await;
        assert_eq!(stage.journal.count("change"), 1);
        let object = stage.get("obj").await;
        assert_eq!(progress(&object, "sync")["retries"], 2);
        assert_eq!(last_handled(&object)["spec"]["n"], 1);
    });
}

#[test]
fn several_handlers_see_the_changes_of_each_other() {
    sandboxed(async |stage| {
        let count = |id: &'static str| {
            on::reconcile(id).does(move |call: Call| async move {
                let path = FieldPath::parse("spec").join(id);
                call.patch.with(|patch| patch.set(&path, json!(1)));
                done()
            })
        };
        let _operator = stage.run([count("a"), count("b")]).await;
        stage.create("obj", json!({})).await;
        stage.pass(10.0).await;
        assert_eq!(stage.journal.triggers("a"), ["created", "updated"]);
        assert_eq!(stage.journal.triggers("b"), ["created, updated"]);
        assert_eq!(stage.get("obj").await["spec"], json!({"a": 1, "b": 1}));
    });
}

#[test]
fn ids_are_not_shared_with_other_handlers() {
    sandboxed(async |stage| {
        let handlers = [on::create("sync"), on::reconcile("sync")];
        let error = stage.operator(handlers).fails().await;
        assert_eq!(error, r#"SharedId { id: "sync" }"#);
    });
}

#[test]
fn ids_are_not_shared_by_selectors_in_other_words() {
    sandboxed(async |stage| {
        let group = stage.api.group();
        for name in ["things", "Thing", &format!("things.{group}")] {
            let handlers = [on::create("sync").on(&[name]), on::reconcile("sync")];
            let error = stage.operator(handlers).fails().await;
            assert_eq!(error, r#"SharedId { id: "sync" }"#, "{name}");
        }
        let handlers = [on::create("sync").on(&["configmaps"]), failing(0, 1.0)];
        let _operator = stage.run(handlers).await;
        stage.create("obj", json!({})).await;
        stage.pass(10.0).await;
        assert_eq!(triggers(stage), ["created"]);
    });
}

#[test]
fn fields_of_the_status_that_others_watch_are_no_triggers() {
    everywhere(async |stage| {
        let watch = on::field("watch", "status.n");
        let _operator = stage.run([watch, on::reconcile("sync")]).await;
        stage.create("obj", json!({"n": 0})).await;
        called(stage, 1).await;
        stage.merge_status("obj", json!({"status": {"n": 1}})).await;
        let is_called = || stage.journal.count("watch/status.n") > 0;
        stage.wait_for("the call", is_called).await;
        stage.settled().await;
        assert_eq!(triggers(stage), ["created"]);
        changed(stage, "obj", 1).await;
        called(stage, 2).await;
        assert_eq!(triggers(stage), ["created", "updated"]);
    });
}

/// Returns the seconds of the calls of a handler.
fn seconds(stage: &Stage, id: &str, began: jiff::Timestamp) -> Vec<i64> {
    let calls = stage.journal.of(id).into_iter();
    let times = calls.map(|call| call.at.duration_since(began).as_secs());
    times.collect()
}

#[test]
fn delays_of_other_handlers_end_during_reconciliation() {
    sandboxed(async |stage| {
        let make = on::create("make").does(|call: Call| async move {
            if call.retry == 0 {
                return temporary("not yet", 100.0);
            }
            done()
        });
        let sync = on::reconcile("sync").every(90.0);
        let sync = sync.does(|call: Call| async move {
            if call.triggers.contains(Trigger::Period) {
                sleep(Duration::from_secs(30)).await;
            }
            done()
        });
        let _operator = stage.run([make, sync]).await;
        let began = stage.now();
        stage.create("obj", json!({})).await;
        stage.pass(150.0).await;
        assert_eq!(seconds(stage, "sync", began), [0, 90]);
        assert_eq!(seconds(stage, "make", began), [0, 120]);
    });
}

/// Whatever happens during a call, the calls of one object follow each other.
#[test]
fn handlers_of_one_object_are_never_called_at_the_same_time() {
    sandboxed(async |stage| {
        let (running, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let slow = |declaration: Declaration| {
            let (running, most) = (Arc::clone(&running), Arc::clone(&most));
            declaration.does(move |call: Call| {
                let (running, most) = (Arc::clone(&running), Arc::clone(&most));
                async move {
                    let now = running.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(now, Ordering::SeqCst);
                    sleep(Duration::from_secs(30)).await;
                    running.fetch_sub(1, Ordering::SeqCst);
                    if call.retry == 0 {
                        return temporary("not yet", 20.0);
                    }
                    done()
                }
            })
        };
        let handlers = [
            slow(on::create("make")),
            slow(on::update("change")),
            slow(on::reconcile("sync").owns("configmaps").every(50.0)),
            slow(on::reconcile("other").owns("configmaps")),
            slow(on::delete("drop")),
        ];
        let _operator = stage.run(handlers).await;
        let owner = stage.create("obj", json!({"n": 0})).await;
        for n in 0..40 {
            stage.sleep(11.0).await;
            if n % 3 == 0 {
                stage.merge("obj", json!({"spec": {"n": n}})).await;
            } else {
                create_child(stage, &format!("child-{n}"), &owner).await;
            }
        }
        stage.sleep(600.0).await;
        stage.delete("obj").await;
        stage.pass(300.0).await;
        assert_eq!(stage.get("obj").await, Value::Null);
        for id in ["make", "change", "sync", "other", "drop"] {
            assert!(stage.journal.count(id) > 1, "{id}");
        }
        assert_eq!(most.load(Ordering::SeqCst), 1);
    });
}
