//! The twins, in the order of the recordings.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kopf_core::cause::{EventType, Reason};
use kopf_core::diffbase::{
    AnnotationsDiffBaseStorage, DiffBaseStorage, MultiDiffBaseStorage, StatusDiffBaseStorage,
};
use kopf_core::filter::{MetaCriterion, ValueCriterion};
use kopf_core::handler::ErrorsMode;
use kopf_core::progress::{
    AnnotationsProgressStorage, MultiProgressStorage, ProgressStorage, StatusProgressStorage,
};
use kopf_engine::invocation::{Call, HandlerResult};
use serde_json::{Value, json};

use super::Golden;
use crate::front::{Declaration, arbitrary, done, gives, on, permanent, register, temporary};
use crate::stage::{Stage, everywhere, sandboxed};

/// The object of most recordings.
fn spec() -> Value {
    json!({"field": "value", "items": ["a", "b"]})
}

fn diff(call: &Call) -> Value {
    call.change()
        .map_or(Value::Null, |change| json!(change.diff))
}

fn old_and_new(call: &Call) -> (Value, Value) {
    let change = call.change();
    let value = |value: Option<&Arc<Value>>| value.map_or(Value::Null, |v| (**v).clone());
    (
        value(change.and_then(|change| change.old.as_ref())),
        value(change.and_then(|change| change.new.as_ref())),
    )
}

/// Fails so many times, with a delay of a second.
fn fails(times: u32, message: &'static str) -> impl Fn(Call) -> std::future::Ready<HandlerResult> {
    move |call| {
        std::future::ready(if call.retry < times {
            temporary(message, 1.0)
        } else {
            done()
        })
    }
}

async fn delete_and_wait(stage: &Stage) {
    stage.delete_wholly("obj").await;
    stage
        .until_so("the end to be noticed", || {
            stage.log.has("obj", "Deleted, really deleted")
        })
        .await;
}

#[test]
fn s01_create_result() {
    everywhere(async |stage| {
        let golden = Golden::load("s01-create-result", stage);
        let make = on::create("make")
            .does(|call| async move { gives(json!({"seen": call.body().spec()["field"]})) });
        let _operator = stage.run([make]).await;
        stage.create("obj", spec()).await;
        golden.settles("created").await;
        delete_and_wait(stage).await;
        golden.compare_writes();
        golden.compare_log();
    });
}

#[test]
fn s02_finalizer() {
    everywhere(async |stage| {
        let golden = Golden::load("s02-finalizer", stage);
        let unmake = on::delete("unmake").does(|_| async { gives(json!("gone")) });
        let _operator = stage.run([on::create("make"), unmake]).await;
        stage.create("obj", spec()).await;
        golden.settles("created").await;
        delete_and_wait(stage).await;
        golden.reaches("deleted").await;
        golden.compare_writes();
        golden.compare_log();
    });
}

#[test]
fn s03_temporary() {
    everywhere(async |stage| {
        let golden = Golden::load("s03-temporary", stage);
        let make = on::create("make").does(|call| async move {
            if call.retry < 2 {
                return temporary("not yet", 1.0);
            }
            gives(json!(call.retry))
        });
        let _operator = stage.run([make]).await;
        stage.create("obj", spec()).await;
        golden.reaches("first failure").await;
        golden.settles("done").await;
        golden.compare_writes();
        golden.compare_log();
    });
}

#[test]
fn s04_arbitrary_retries() {
    everywhere(async |stage| {
        let golden = Golden::load("s04-arbitrary-retries", stage);
        let make = on::create("make")
            .backoff(1.0)
            .retries(2)
            .does(|_| async { arbitrary("boom") });
        let ignored = on::create("ignored")
            .errors(ErrorsMode::Ignored)
            .does(|_| async { arbitrary("whatever") });
        let permanent = on::create("permanent")
            .errors(ErrorsMode::Permanent)
            .does(|_| async { arbitrary("once") });
        let _operator = stage.run([make, ignored, permanent]).await;
        stage.create("obj", spec()).await;
        golden.reaches("in progress").await;
        golden.settles("done").await;
        golden.compare_writes();
        golden.compare_log();
    });
}

#[test]
fn s06_two_handlers() {
    everywhere(async |stage| {
        let golden = Golden::load("s06-two-handlers", stage);
        let first = on::create("first").does(|_| async { gives(json!(1)) });
        let second = on::create("second").does(|_| async { gives(json!([1, "x", null])) });
        let third = on::create("third")
            .field("spec.field")
            .does(|call| async move {
                let (old, new) = old_and_new(&call);
                gives(json!({"old": old, "new": new, "diff": diff(&call)}))
            });
        let never = on::create("never")
            .field("spec.absent")
            .does(|_| async { gives(json!(1)) });
        let _operator = stage.run([first, second, third, never]).await;
        stage.create("obj", spec()).await;
        golden.settles("done").await;
        golden.compare_writes();
        golden.compare_log();
    });
}

#[test]
fn s07_subhandlers() {
    everywhere(async |stage| {
        let golden = Golden::load("s07-subhandlers", stage);
        let make = on::create("make").does(|call| async move {
            let items = call.body().spec()["items"].as_array().cloned();
            for item in items.unwrap_or_default() {
                let id = item.as_str().unwrap_or_default().to_owned();
                let one = on::sub(&id).does(move |call| {
                    let item = item.clone();
                    async move {
                        if item == "b" && call.retry == 0 {
                            return temporary("b later", 1.0);
                        }
                        gives(json!({"item": item}))
                    }
                });
                register(&call, &one);
            }
            gives(json!("parent"))
        });
        let _operator = stage.run([make]).await;
        stage.create("obj", spec()).await;
        golden.reaches("in progress").await;
        golden.settles("done").await;
        golden.compare_writes();
        golden.compare_log();
    });
}

#[test]
fn s08_update_diff() {
    everywhere(async |stage| {
        let golden = Golden::load("s08-update-diff", stage);
        let changed =
            on::update("changed").does(|call| async move { gives(json!({"diff": diff(&call)})) });
        let relabelled = on::field("relabelled", "metadata.labels").does(|call| async move {
            let (old, new) = old_and_new(&call);
            gives(json!({"old": old, "new": new, "diff": diff(&call)}))
        });
        let exact = on::update("exact")
            .field("spec.field")
            .old(ValueCriterion::Literal(json!("value")))
            .new_value(ValueCriterion::Literal(json!("other")))
            .does(|_| async { gives(json!(true)) });
        let absent = on::update("absent")
            .field("spec.field")
            .value(ValueCriterion::Absent)
            .does(|_| async { gives(json!(true)) });
        let _operator = stage.run([changed, relabelled, exact, absent]).await;

        let labels = json!({"labels": {"a": "1"}});
        stage
            .create_with("obj", json!({"metadata": labels, "spec": spec()}))
            .await;
        golden.settles("created").await;
        let change = json!({
            "metadata": {"labels": {"a": null, "b": "2"}},
            "spec": {"field": "other", "extra": {"x": {"y": 1}}},
        });
        stage.merge("obj", change).await;
        golden.settles("updated").await;
        stage
            .merge_status("obj", json!({"status": {"noise": 1}}))
            .await;
        golden.settles("status only").await;
        let change = json!({"spec": {"field": null, "items": ["a", "b", "c"]}});
        stage.merge("obj", change).await;
        golden.settles("field removed").await;
        golden.compare_writes();
        golden.compare_log();
    });
}

#[test]
fn s09_resume_downtime() {
    everywhere(async |stage| {
        let golden = Golden::load("s09-resume-downtime", stage);
        let up = on::create("up").does(|call| async move {
            let reason = call.change().map(|change| change.reason);
            gives(json!(reason.map(Reason::as_str)))
        });
        let resumed = up.also(on::resume("up"));
        let changed =
            on::update("changed").does(|call| async move { gives(json!({"diff": diff(&call)})) });
        let operator = stage.run([up, resumed, changed]).await;
        stage.create("obj", spec()).await;
        golden.settles("created").await;

        operator.restart().await;
        golden.settles("resumed").await;

        operator.stop().await;
        stage
            .merge("obj", json!({"spec": {"field": "while-away"}}))
            .await;
        operator.start().await;
        golden.settles("updated and resumed").await;

        operator.restart().await;
        stage
            .until("obj", "resumed again", |object| {
                object["status"]["up"] == "resume"
            })
            .await;
        stage.settled().await;
        golden.compare_writes();
        golden.compare_log();
    });
}

#[test]
fn s11_timer_daemon() {
    sandboxed(async |stage| {
        let golden = Golden::load("s11-timer-daemon", stage);
        let count = Arc::new(AtomicU64::new(0));
        let tick = on::timer("tick").interval(1.0).does(move |call| {
            let count = count.fetch_add(1, Ordering::SeqCst) + 1;
            async move {
                call.patch
                    .with(|patch| patch.status_mut().insert("ticks".to_owned(), json!(count)));
                if count < 2 {
                    return done();
                }
                gives(json!({"last": count}))
            }
        });
        let watch = on::daemon("watch")
            .cancellation_timeout(1.0)
            .does(|call| async move {
                tokio::time::sleep(Duration::from_millis(1500)).await;
                gives(json!({"field": call.body().spec()["field"]}))
            });
        let _operator = stage.run([tick, watch]).await;
        stage.create("obj", spec()).await;
        golden.settles("running").await;
        stage.delete_wholly("obj").await;
        stage.settled().await;
        golden.compare_all_without_order();
    });
}

#[test]
fn s12_event_patch() {
    everywhere(async |stage| {
        let golden = Golden::load("s12-event-patch", stage);
        let spy = on::event("spy").does(|call| async move {
            if call.body().status()["spied"].is_null() {
                let event = call.event().and_then(EventType::as_str);
                let seen = json!(event.unwrap_or("None"));
                call.patch
                    .with(|patch| patch.status_mut().insert("spied".to_owned(), seen));
            }
            done()
        });
        let labelled = on::event("labelled")
            .label("x", MetaCriterion::Present)
            .does(|_| async { arbitrary("ignored anyway") });
        let labels = json!({"labels": {"x": "y"}});
        stage
            .create_with("obj", json!({"metadata": labels, "spec": spec()}))
            .await;
        let _operator = stage.run([spy, labelled]).await;
        golden.settles("listed").await;
        stage.create("obj2", spec()).await;
        golden.settles("added").await;
        golden.compare_writes();
        golden.compare_log();
    });
}

#[test]
fn s13_custom_storages() {
    everywhere(async |stage| {
        let golden = Golden::load("s13-custom-storages", stage);
        let make = on::create("make").does(fails(1, "not yet"));
        let setup = stage.operator([make, on::delete("unmake")]);
        let _operator = setup
            .settings(|settings| {
                let prefix = "my-op.example.com";
                let persistence = &mut settings.persistence;
                persistence.finalizer = "my-op.example.com/fin".into();
                let storages: [Arc<dyn ProgressStorage>; 2] = [
                    Arc::new(AnnotationsProgressStorage::new(prefix).unwrap()),
                    Arc::new(StatusProgressStorage::default().field("status.my-op")),
                ];
                persistence.progress_storage = Arc::new(MultiProgressStorage::new(storages));
                let storages: [Arc<dyn DiffBaseStorage>; 2] = [
                    Arc::new(StatusDiffBaseStorage::default().field("status.base")),
                    Arc::new(AnnotationsDiffBaseStorage::new(prefix).unwrap().key("last")),
                ];
                persistence.diffbase_storage = Arc::new(MultiDiffBaseStorage::new(storages));
            })
            .start()
            .await;
        stage.create("obj", spec()).await;
        golden.reaches("in progress").await;
        golden.settles("done").await;
        delete_and_wait(stage).await;
        golden.compare_writes();
        golden.compare_log();
    });
}

#[test]
fn s14_long_ids() {
    everywhere(async |stage| {
        let golden = Golden::load("s14-long-ids", stage);
        let one =
            on::create("a-handler-name-of-exactly-fifty-characters-in-total").does(fails(1, "x"));
        let long = "a-very-long-handler-id-that-goes-well-beyond-the-limit-of-sixty-three-characters/\
                    with-parts";
        let two = on::create(long).field("spec.field").does(fails(1, "x"));
        let inner = on::create("outer.<locals>.inner").does(fails(1, "ä中"));
        let _operator = stage.run([one, two, inner]).await;
        let spec = json!({"field": "ä中😀", "m": 1000, "n": 1});
        stage.create("obj", spec).await;
        // Its moment "in progress" was recorded too late: it shows the end, too.
        golden.settles("done").await;
        golden.compare_writes();
        golden.compare_log();
    });
}

#[test]
fn s16_k8s_events() {
    everywhere(async |stage| {
        let golden = Golden::load("s16-k8s-events", stage);
        let make = on::create("make").does(|call| async move {
            call.logger.info("hello world");
            call.logger.warning("careful");
            call.logger.debug("quiet");
            let (poster, object) = (call.logger.poster(), call.logger.reference());
            poster.event(object, "SomeType", "SomeReason", "m".repeat(1100));
            poster.info(object, "InfoReason", "info".to_owned());
            poster.warn(object, "WarnReason", "warn".to_owned());
            let message = "Some exception: Exception text.".to_owned();
            poster.exception(object, "ExcReason", message);
            permanent("the end")
        });
        let _operator = stage
            .operator([make])
            .settings(|settings| settings.posting.loggers = true)
            .start()
            .await;
        stage.create("obj", spec()).await;
        golden.reaches("done").await;
        stage
            .until_so("all events to be posted", || stage.posts().len() >= 8)
            .await;
        stage.settled().await;
        golden.compare_writes();
        golden.compare_log();
    });
}

#[test]
fn s17_stealth_filters() {
    everywhere(async |stage| {
        let golden = Golden::load("s17-stealth-filters", stage);
        let going =
            |handler: Declaration| handler.label("go", MetaCriterion::Literal("yes".into()));
        let make = going(on::create("make")).does(|_| async { gives(json!(1)) });
        let change = going(on::update("change")).does(|_| async { gives(json!(2)) });
        let _operator = stage.run([make, change, going(on::delete("unmake"))]).await;
        stage.create_settled("obj", spec()).await;
        golden.reaches("stealth").await;
        let label = |value: Value| json!({"metadata": {"labels": {"go": value}}});
        stage.merge("obj", label(json!("yes"))).await;
        golden.settles("matched").await;
        stage.merge("obj", label(json!(null))).await;
        golden.settles("unmatched").await;
        stage.merge("obj", label(json!("yes"))).await;
        golden.settles("matched again").await;
        delete_and_wait(stage).await;
        golden.compare_writes();
        golden.compare_log();
    });
}
