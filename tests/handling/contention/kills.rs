//! The operator is killed at every write of a deletion amid other writes, and restarted. A handler
//! succeeds once more only if its success was not recorded when the operator was killed.

use kopf_testing::recording::{Call, Moment};
use serde_json::{Value, json};

use super::{Other, Part};
use crate::front::{Declaration, done, gives, on, register, temporary};
use crate::stage::{Entry, FINALIZER, Kind, Stage, finalizers, sandboxed_on};

/// Returns handlers whose deletion takes several writes.
fn handlers(other: &Other) -> Vec<Declaration> {
    let other = other.clone();
    let writing = on::delete("writing").does(move |call| {
        let other = other.clone();
        async move {
            other.write(Part::Status).await;
            if call.retry == 0 {
                return temporary("not yet", 1.0);
            }
            gives(json!({"retry": call.retry}))
        }
    });
    let parent = on::delete("parent").does(|call| async move {
        register(&call, &on::sub("a"));
        register(&call, &on::sub("b"));
        done()
    });
    vec![parent, writing, on::delete("last")]
}

/// The handlers that are recorded as finished by an accepted write, ever.
fn recorded(stage: &Stage, writes: usize) -> Vec<String> {
    let mut ids = Vec::new();
    let accepted = stage.writes().into_iter().filter(Call::is_accepted);
    for call in accepted.take(writes) {
        let annotations = call.body.pointer("/metadata/annotations");
        for (key, value) in annotations.and_then(Value::as_object).into_iter().flatten() {
            let record = value.as_str().unwrap_or_default();
            if let Some(id) = key.strip_prefix("kopf.zalando.org/")
                && record.contains("\"success\":true")
            {
                ids.push(id.replace('.', "/"));
            }
        }
    }
    ids
}

/// Checks that no handler is called after its success was recorded, even if the record is gone.
#[track_caller]
fn check_records(stage: &Stage, what: &str) {
    for entry in stage.journal.all() {
        let Entry {
            id, writes_before, ..
        } = &entry;
        assert!(
            !recorded(stage, *writes_before).contains(id),
            "{what}: {id} is called again though its success was recorded"
        );
    }
}

/// Deletes an object, and kills the operator at the n-th write. Returns `false` if there is no such
/// write.
async fn delete(stage: &Stage, others: &Value, nth: u64, moment: Moment) -> bool {
    let other = Other::new(stage);
    let operator = stage.run(handlers(&other)).await;
    let metadata = json!({"finalizers": others});
    stage
        .create_with("obj", json!({"metadata": metadata}))
        .await;
    stage.until_handled("obj").await;
    stage.settled().await;
    stage.journal.clear();
    stage.recorder.take();
    let _writing = other.writing(Part::Status, 0.3);
    let breakpoint = stage.breakpoint(nth, moment);
    stage.delete("obj").await;
    let time = std::time::Duration::from_secs(30);
    let reached = tokio::time::timeout(time, breakpoint.reached()).await;
    if reached.is_ok() {
        operator.kill().await;
        drop(breakpoint);
        operator.start().await;
    }
    stage
        .until("obj", "released", |object| {
            !finalizers(object).contains(&FINALIZER)
        })
        .await;
    stage.sleep(2.0).await;
    reached.is_ok()
}

#[test]
fn kill_at_every_write_of_a_deletion_repeats_no_recorded_success() {
    for kind in [Kind::WithStatus, Kind::Plain] {
        for others in [json!([]), json!(["example.com/a"])] {
            for moment in [Moment::Before, Moment::After] {
                let mut writes = 0;
                for nth in 1.. {
                    let mut is_reached = false;
                    sandboxed_on(kind, async |stage| {
                        is_reached = delete(stage, &others, nth, moment).await;
                        let what = format!("{kind:?}, {others}, {moment:?} write {nth}");
                        check_records(stage, &what);
                        super::check_warnings(stage);
                        let limit = 1 + usize::from(is_reached);
                        for id in ["parent/a", "parent/b", "last"] {
                            let calls = stage.journal.count(id);
                            assert!((1..=limit).contains(&calls), "{what}: {id} {calls}");
                        }
                        let calls = stage.journal.count("writing");
                        assert!((2..=1 + limit).contains(&calls), "{what}: writing {calls}");
                    });
                    if !is_reached {
                        break;
                    }
                    writes = nth;
                }
                let is_sandbox = kopf_tests::Server::from_env() == kopf_tests::Server::Sandbox;
                assert!(writes >= 4 || !is_sandbox, "{writes} writes");
            }
        }
    }
}
