//! Patches of daemons and timers.

use std::time::Duration;

use kopf_core::patch::PatchFn;
use kopf_sandbox::fault::{Fault, Verb};
use serde_json::{Value, json};

use super::times;
use crate::front::{Declaration, arbitrary, done, gives, on, temporary};
use crate::stage::{Kind, Stage, everywhere_on, finalizers, sandboxed};

/// Appends the retry number to a list, whatever its content.
fn append(call: &kopf_engine::invocation::Call) {
    let item = json!(call.retry);
    call.patch.with(|patch| {
        patch.add_fn(PatchFn::new("append", move |body: &mut Value| {
            let list = &mut body["spec"]["list"];
            if list.is_null() {
                *list = json!([]);
            }
            list.as_array_mut().ok_or("no list")?.push(item.clone());
            Ok(())
        }));
    });
}

fn set_status(call: &kopf_engine::invocation::Call, key: &str, value: Value) {
    call.patch
        .with(|patch| patch.status_mut().insert(key.to_owned(), value));
}

fn counting() -> Declaration {
    on::timer("tick").interval(10.0).does(|call| async move {
        let count = call.body().status()["count"].as_i64().unwrap_or(0);
        set_status(&call, "count", json!(count + 1));
        gives(json!({"count": count + 1}))
    })
}

#[test]
fn every_attempt_is_written_with_its_result() {
    for kind in [Kind::WithStatus, Kind::Plain, Kind::Cluster] {
        everywhere_on(kind, async |stage| {
            let tick = on::timer("tick").interval(0.05).does(|call| async move {
                let count = call.body().status()["count"].as_i64().unwrap_or(0);
                if count < 3 {
                    set_status(&call, "count", json!(count + 1));
                    return gives(json!({"count": count + 1}));
                }
                done()
            });
            let _operator = stage.run([tick]).await;
            stage.create("obj", json!({})).await;
            let object = stage
                .until("obj", "counted", |object| object["status"]["count"] == 3)
                .await;
            assert_eq!(object["status"]["tick"]["count"], 3);
        });
    }
}

#[test]
fn failed_attempts_are_written() {
    sandboxed(async |stage| {
        let watch = on::daemon("watch")
            .backoff(10.0)
            .retries(3)
            .does(|call| async move {
                set_status(&call, "retry", json!(call.retry));
                arbitrary("boom")
            });
        let _operator = stage.run([watch]).await;
        stage.create("obj", json!({})).await;
        for retry in 0..3 {
            stage.settled().await;
            assert_eq!(stage.get("obj").await["status"]["retry"], retry);
            stage.pass(10.0).await;
        }
    });
}

#[test]
fn patch_is_not_written_while_the_handler_runs() {
    sandboxed(async |stage| {
        let watch = on::daemon("watch").does(|call| async move {
            set_status(&call, "early", json!(true));
            let stopped = call.stopped.clone().unwrap();
            stopped.wait(Some(Duration::from_secs(10))).await;
            done()
        });
        let _operator = stage.run([watch]).await;
        stage.create("obj", json!({})).await;
        stage.pass(9.0).await;
        assert!(stage.get("obj").await["status"].is_null());
        stage.pass(2.0).await;
        assert_eq!(stage.get("obj").await["status"]["early"], true);
    });
}

#[test]
fn handlers_do_not_share_patches() {
    sandboxed(async |stage| {
        let one = on::timer("one").interval(10.0).does(|call| async move {
            assert!(
                call.patch.with(|patch| patch.is_empty()),
                "patches are not shared"
            );
            set_status(&call, "one", json!(1));
            done()
        });
        let two = one.also(on::timer("two").interval(10.0));
        let _operator = stage.run([one, two]).await;
        stage.create("obj", json!({})).await;
        stage.pass(25.0).await;
        assert_eq!(stage.journal.all().len(), 6);
        assert!(!stage.log.has("obj", "panicked"));
    });
}

#[test]
fn patches_of_timers_trigger_updates() {
    sandboxed(async |stage| {
        let tick = on::timer("tick").interval(10.0).does(|call| async move {
            if call.body().spec()["field"].is_null() {
                call.patch
                    .with(|patch| patch.spec_mut().insert("field".to_owned(), json!("set")));
            }
            done()
        });
        let _operator = stage
            .run([tick, on::update("change"), on::create("make")])
            .await;
        stage.create("obj", json!({})).await;
        stage.pass(5.0).await;
        let object = stage.until_handled("obj").await;
        assert_eq!(object["spec"]["field"], "set");
    });
}

/// Changes the object and delays the event by 3 seconds.
async fn change_unseen(stage: &Stage) {
    let late = Fault::delay_events(Duration::from_secs(3)).kind("things");
    stage.faults().inject(late.times(1));
    let label = json!({"metadata": {"labels": {"changed": "yes"}}});
    stage.merge("obj", label).await;
}

#[test]
fn rejected_transformations_are_applied_by_the_next_attempt() {
    sandboxed(async |stage| {
        let tick = on::timer("tick").interval(10.0).does(|call| async move {
            // The rejected transformation is in the patch before the call.
            if call.patch.with(|patch| patch.is_empty()) {
                append(&call);
            } else {
                set_status(&call, "carried", json!(true));
            }
            done()
        });
        let _operator = stage.run([tick.initial_delay(10.0)]).await;
        let since = stage.now();
        stage.create_settled("obj", json!({})).await;
        stage.pass(9.0).await;
        change_unseen(stage).await;
        stage.pass(2.0).await;
        assert!(stage.get("obj").await["spec"]["list"].is_null());
        stage.pass(10.0).await;
        let object = stage.get("obj").await;
        assert_eq!(object["spec"]["list"], json!([0]));
        assert_eq!(object["status"]["carried"], true);
        assert_eq!(times(stage, since, "tick"), [10, 20]);
    });
}

#[test]
fn rejected_transformations_of_exited_daemons_are_retried() {
    sandboxed(async |stage| {
        let watch = on::daemon("watch")
            .initial_delay(1.0)
            .does(|call| async move {
                append(&call);
                done()
            });
        let operator = stage.run([watch]).await;
        stage.create_settled("obj", json!({})).await;
        change_unseen(stage).await;
        stage.pass(5.0).await;
        assert_eq!(stage.get("obj").await["spec"]["list"], json!([0]));
        assert_eq!(operator.inspect().snapshot().daemons, 0);
    });
}

#[test]
fn timers_survive_server_errors() {
    sandboxed(async |stage| {
        let operator = stage.run([counting().initial_delay(5.0)]).await;
        stage.create_settled("obj", json!({})).await;
        let refused = Fault::error(403).verb(Verb::Patch).kind("things");
        stage.faults().inject(refused.times(3));
        stage.pass(60.0).await;
        assert_eq!(operator.inspect().snapshot().timers, 1);
        let object = stage.get("obj").await;
        assert!(object["status"]["count"].as_i64() >= Some(4), "{object:#}");
        let count = stage.journal.count("tick");
        assert_eq!(object["status"]["count"], count, "nothing is lost");
    });
}

#[test]
fn permanently_rejected_patch_is_dropped() {
    sandboxed(async |stage| {
        let tick = on::timer("tick").interval(10.0).does(|call| async move {
            let bad = json!({"metadata": {"labels": {"a": "not a label!"}}});
            call.patch
                .with(|patch| patch.merge = bad.as_object().cloned().unwrap_or_default());
            done()
        });
        let _operator = stage.run([tick]).await;
        stage.create("obj", json!({})).await;
        stage.pass(25.0).await;
        assert_eq!(stage.journal.count("tick"), 3);
        assert!(stage.log.has("obj", "The patch of Timer 'tick' is dropped"));
    });
}

#[test]
fn patch_of_a_deleted_object_is_skipped() {
    sandboxed(async |stage| {
        let watch = on::daemon("watch").does(|call| async move {
            call.stopped.clone().unwrap().wait(None).await;
            // The finalizer is already removed: the filters do not match.
            tokio::time::sleep(Duration::from_secs(5)).await;
            set_status(&call, "late", json!(true));
            temporary("again", 1.0)
        });
        let watch = watch.when(|cause| cause.body.spec()["off"].is_null());
        let operator = stage.run([watch]).await;
        stage.create_settled("obj", json!({})).await;
        stage.merge("obj", json!({"spec": {"off": true}})).await;
        stage
            .until("obj", "free", |object| finalizers(object).is_empty())
            .await;
        stage.delete("obj").await;
        stage.pass(10.0).await;
        assert!(stage.log.has(
            "obj",
            "Patching was skipped: the object does not exist anymore."
        ));
        assert_eq!(operator.inspect().snapshot().daemons, 0);
    });
}
