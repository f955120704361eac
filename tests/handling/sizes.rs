//! Errors, results and patches that are too large to be stored.

use kopf_core::field::FieldPath;
use kopf_core::lifecycle::AllAtOnce;
use kopf_core::patch::PatchFn;
use kopf_engine::invocation::Call;
use serde_json::{Value, json};

use crate::front::{Declaration, arbitrary, done, gives, on, permanent, register, temporary};
use crate::stage::{
    Kind, Stage, annotation, everywhere, everywhere_on, is_handled, own_annotations, progress,
    sandboxed,
};

const KB: usize = 1_000;
const MB: usize = 1_000_000;

fn text(bytes: usize) -> String {
    "x".repeat(bytes)
}

/// Checks that updates and the deletion of an object are handled, also by another process.
async fn assert_unblocked(stage: &Stage, name: &str, operator: &crate::stage::Actor<'_>) {
    let updates = stage.journal.count("later");
    stage.merge(name, json!({"spec": {"later": 1}})).await;
    let what = "the update is handled";
    stage
        .wait_for(what, || stage.journal.count("later") == updates + 1)
        .await;
    stage.until_settled(name).await;
    let calls = stage.journal.ids().len();
    operator.restart().await;
    stage.settled().await;
    assert_eq!(
        stage.journal.ids().len(),
        calls,
        "a restart changes nothing"
    );
    stage.delete_and_wait(name).await;
    assert_eq!(stage.journal.count("end"), 1);
}

/// Returns the handlers of later changes.
fn later() -> [Declaration; 2] {
    [on::update("later"), on::delete("end")]
}

async fn with_later(stage: &Stage, handler: Declaration) -> crate::stage::Actor<'_> {
    let [update, delete] = later();
    stage.run([handler, update, delete]).await
}

#[test]
fn long_errors_are_cut_and_retried_as_declared() {
    everywhere(async |stage| {
        let fail = on::create("make").retries(3).backoff(0.1);
        let fail = fail.does(|call: Call| async move {
            let size = call.body().spec()["size"].as_u64().unwrap_or_default();
            arbitrary(&text(usize::try_from(size).unwrap()))
        });
        let operator = with_later(stage, fail).await;
        for (name, size) in [("long", 300 * KB), ("longer", 3 * MB)] {
            stage.journal.clear();
            stage.create(name, json!({"size": size})).await;
            stage.until_handled(name).await;
            assert_eq!(stage.journal.count("make"), 3, "{name}");
            assert_unblocked(stage, name, &operator).await;
        }
    });
}

#[test]
fn records_have_messages_with_a_mark() {
    everywhere(async |stage| {
        let wait = on::create("make").does(|_| async { temporary(&text(300 * KB), 600.0) });
        let operator = with_later(stage, wait).await;
        stage.create("obj", json!({})).await;
        let has_record = |object: &Value| progress(object, "make")["retries"] == 1;
        let object = stage.until("obj", "recorded", has_record).await;
        let record = progress(&object, "make");
        let message = record["message"].as_str().unwrap();
        assert!(message.len() <= 16 * 1024, "{}", message.len());
        assert!(message.len() > 16 * 1024 - 100, "{}", message.len());
        assert!(message.ends_with(" of 300000 bytes cut)"), "{message}");
        operator.restart().await;
        stage.delete_and_wait("obj").await;
        assert_eq!(stage.journal.count("make"), 1);
    });
}

#[test]
fn messages_of_many_handlers_are_shortened_evenly() {
    everywhere(async |stage| {
        let ids: Vec<String> = (0..40).map(|n| format!("make-{n:02}")).collect();
        let handlers = ids
            .iter()
            .map(|id| on::create(id).does(|_| async { temporary(&text(100 * KB), 600.0) }));
        let mut handlers: Vec<_> = handlers.collect();
        handlers.push(on::create("short").does(|_| async { temporary("brief", 600.0) }));
        handlers.extend(later());
        let setup = stage.operator(handlers).lifecycle(AllAtOnce);
        let _operator = setup.start().await;
        stage.create("obj", json!({})).await;
        let has_records = |object: &Value| progress(object, "short")["retries"] == 1;
        let object = stage.until("obj", "recorded", has_records).await;
        assert_eq!(progress(&object, "short")["message"], "brief");
        let lengths: Vec<usize> = ids
            .iter()
            .map(|id| progress(&object, id)["message"].as_str().unwrap().len())
            .collect();
        let (least, most) = (lengths.iter().min(), lengths.iter().max());
        assert_eq!(least, most, "all are shortened alike");
        assert!(lengths[0] > 5 * KB, "{lengths:?}");
        stage.delete_and_wait("obj").await;
    });
}

#[test]
fn large_results_fail_their_handlers() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call: Call| async move {
            let size = call.body().spec()["size"].as_u64().unwrap_or_default();
            gives(json!(text(usize::try_from(size).unwrap())))
        });
        let operator = with_later(stage, make).await;
        for (name, size, limit) in [
            ("large", 17 * MB / 10, "1572864"),
            ("beyond-messages", 25 * MB / 10, "1572864"),
            ("beyond-requests", 5 * MB, "3145728"),
        ] {
            stage.journal.clear();
            stage.create(name, json!({"size": size})).await;
            let object = stage.until_handled(name).await;
            assert!(object["status"]["make"].is_null());
            let failed = "Handler 'make' failed permanently: its result and changes have";
            stage
                .wait_for("failed", || stage.log.has(name, failed))
                .await;
            assert!(
                stage
                    .log
                    .has(name, &format!("the server accepts {limit} bytes"))
            );
            assert_eq!(stage.journal.count("make"), 1, "{name}");
            assert_unblocked(stage, name, &operator).await;
        }
    });
}

#[test]
fn large_results_fail_only_their_own_handlers() {
    everywhere_on(Kind::Plain, async |stage| {
        let small = on::create("small").does(|_| async { gives(json!("small")) });
        let large = on::create("large").does(|_| async { gives(json!(text(17 * MB / 10))) });
        let wait = on::create("wait").does(|call: Call| async move {
            if call.retry == 0 {
                return temporary("later", 1.0);
            }
            gives(json!("done"))
        });
        let setup = stage.operator([small, large, wait]).lifecycle(AllAtOnce);
        let _operator = setup.start().await;
        stage.create("obj", json!({})).await;
        stage.until_handled("obj").await;
        let writes = stage.writes();
        let mut recorded = writes.iter().filter(|write| write.status == Some(200));
        let recorded = &recorded.next().unwrap().body;
        assert_eq!(progress(recorded, "small")["success"], true);
        assert_eq!(progress(recorded, "large")["failure"], true);
        let message = progress(recorded, "large")["message"].to_string();
        assert!(
            message.contains("the server accepts 1572864 bytes"),
            "{message}"
        );
        let object = stage.until_handled("obj").await;
        assert_eq!(object["status"], json!({"small": "small", "wait": "done"}));
        let counts = ["small", "large", "wait"].map(|id| stage.journal.count(id));
        assert_eq!(counts, [1, 1, 2]);
    });
}

#[test]
fn large_patches_fail_their_handlers() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call: Call| async move {
            let field = call.body().spec()["into"].as_str().map(FieldPath::parse);
            let value = json!({"a": text(2 * MB)});
            call.patch.with(|patch| patch.set(&field.unwrap(), value));
            done()
        });
        let operator = with_later(stage, make).await;
        for (name, into) in [
            ("spec", "spec.big"),
            ("status", "status.big"),
            ("annotations", "metadata.annotations"),
        ] {
            stage.journal.clear();
            stage.create(name, json!({"into": into})).await;
            stage.until_handled(name).await;
            let failed = "Handler 'make' failed permanently: ";
            stage
                .wait_for("failed", || stage.log.has(name, failed))
                .await;
            assert_eq!(stage.journal.count("make"), 1, "{name}");
            assert_unblocked(stage, name, &operator).await;
        }
    });
}

#[test]
fn large_transformations_fail_their_handlers() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call: Call| async move {
            let grow = PatchFn::new("grow", |body: &mut Value| {
                body["spec"]["big"] = json!(text(2 * MB));
                Ok(())
            });
            call.patch.with(|patch| patch.add_fn(grow));
            done()
        });
        let operator = with_later(stage, make).await;
        stage.create("obj", json!({})).await;
        stage.until_handled("obj").await;
        let failed = "Handler 'make' failed permanently: ";
        stage
            .wait_for("failed", || stage.log.has("obj", failed))
            .await;
        assert_unblocked(stage, "obj", &operator).await;
    });
}

#[test]
fn large_results_of_delete_handlers_do_not_block_the_deletion() {
    everywhere(async |stage| {
        let end = on::delete("end").does(|_| async { gives(json!(text(17 * MB / 10))) });
        let _operator = stage.run([end]).await;
        stage.create("obj", json!({})).await;
        stage.until_settled("obj").await;
        stage.delete_and_wait("obj").await;
        assert_eq!(stage.journal.count("end"), 1);
    });
}

#[test]
fn large_results_of_event_handlers_are_dropped() {
    everywhere(async |stage| {
        let spy = on::event("spy").does(|_| async { gives(json!(text(17 * MB / 10))) });
        let operator = with_later(stage, spy).await;
        stage.create("obj", json!({})).await;
        let failed = "Handler 'spy' failed permanently: ";
        stage
            .wait_for("failed", || stage.log.has("obj", failed))
            .await;
        stage.until_handled("obj").await;
        stage.merge("obj", json!({"spec": {"later": 1}})).await;
        let what = "the update is handled";
        stage
            .wait_for(what, || stage.journal.count("later") == 1)
            .await;
        stage.delete_and_wait("obj").await;
        drop(operator);
    });
}

#[test]
fn timers_with_large_results_stop() {
    sandboxed(async |stage| {
        let timer = on::timer("tick")
            .interval(1.0)
            .does(|_| async { gives(json!(text(17 * MB / 10))) });
        let _operator = with_later(stage, timer).await;
        stage.create("obj", json!({})).await;
        stage.pass(60.0).await;
        assert_eq!(stage.journal.count("tick"), 1);
        let failed = "Timer 'tick' failed permanently: its result and changes have";
        assert!(stage.log.has("obj", failed));
        stage.delete_and_wait("obj").await;
    });
}

/// Returns a parent with this many sub-handlers.
fn parent(count: usize, sub: fn(&str) -> Declaration) -> Declaration {
    on::create("make").does(move |call: Call| async move {
        for n in 0..count {
            register(&call, &sub(&format!("item-{n:04}")));
        }
        done()
    })
}

#[test]
fn hundreds_of_sub_handlers_fit() {
    sandboxed(async |stage| {
        let [update, delete] = later();
        let parent = parent(500, |id| {
            on::sub(id).does(|_| async { permanent(&text(20 * KB)) })
        });
        let setup = stage.operator([parent, update, delete]);
        let operator = setup.lifecycle(AllAtOnce).start().await;
        stage.create("obj", json!({})).await;
        let object = stage.until_handled("obj").await;
        assert_eq!(own_annotations(&object).len(), 1);
        assert_eq!(stage.journal.ids().len(), 1 + 500);
        assert_unblocked(stage, "obj", &operator).await;
    });
}

#[test]
fn records_of_sub_handlers_lose_their_messages_if_there_is_no_room() {
    everywhere(async |stage| {
        let [update, delete] = later();
        let parent = parent(500, |id| {
            on::sub(id).does(|_| async { temporary(&text(20 * KB), 600.0) })
        });
        let setup = stage.operator([parent, update, delete]);
        let operator = setup.lifecycle(AllAtOnce).start().await;
        stage.create("obj", json!({})).await;
        let is_recorded = |object: &Value| progress(object, "make.item-0499")["retries"] == 1;
        let object = stage.until("obj", "recorded", is_recorded).await;
        let subrefs = progress(&object, "make")["subrefs"].clone();
        assert_eq!(subrefs.as_array().map(Vec::len), Some(500));
        let calls = stage.journal.ids().len();
        operator.restart().await;
        stage.settled().await;
        assert_eq!(stage.journal.ids().len(), calls);
        stage.delete_and_wait("obj").await;
    });
}

#[test]
fn too_many_sub_handlers_fail_their_parent_before_they_are_called() {
    everywhere(async |stage| {
        let wait = on::create("wait").does(|call: Call| async move {
            if call.retry == 0 {
                return temporary("later", 1.0);
            }
            done()
        });
        let [update, delete] = later();
        let parent = parent(2_000, on::sub);
        let setup = stage.operator([parent, wait, update, delete]);
        let operator = setup.lifecycle(AllAtOnce).start().await;
        stage.create("obj", json!({})).await;
        let is_recorded = |object: &Value| progress(object, "make")["failure"] == true;
        let object = stage.until("obj", "recorded", is_recorded).await;
        let message = progress(&object, "make")["message"].to_string();
        assert!(message.contains("2000 sub-handlers"), "{message}");
        assert!(message.contains("may have 262144"), "{message}");
        assert!(annotation(&object, "kopf.zalando.org/make.item-0000").is_empty());
        stage.until("obj", "handled", is_handled).await;
        let called = stage.journal.ids();
        assert_eq!(called.iter().filter(|id| id.starts_with("make")).count(), 1);
        assert_unblocked(stage, "obj", &operator).await;
    });
}
