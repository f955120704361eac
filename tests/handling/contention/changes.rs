//! Creations and updates of objects that others change.

use kopf_core::patch::PatchFn;
use kopf_testing::recording::Moment;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{Other, Part, check_calls, slowly};
use crate::front::{Declaration, done, gives, on, register, temporary};
use crate::stage::{Kind, Stage, everywhere, everywhere_on, is_handled, sandboxed, sandboxed_on};

/// Returns handlers of creations and updates which take some time and some cycles.
fn elaborate() -> Vec<Declaration> {
    let make = on::create("make").does(|call| async move {
        register(&call, &on::sub("a").does(|_| slowly(0.4)));
        register(&call, &on::sub("b").does(|_| slowly(0.4)));
        done()
    });
    let retried = on::create("retried").does(|call| async move {
        if call.retry == 0 {
            return temporary("not yet", 0.5);
        }
        gives(json!({"retry": call.retry}))
    });
    let update = on::update("update").does(|_| slowly(0.7));
    let other = on::update("other").does(|call| async move {
        if call.retry == 0 {
            return temporary("not yet", 0.3);
        }
        gives(json!({"retry": call.retry}))
    });
    vec![make, retried, update, other, on::delete("unmake")]
}

#[track_caller]
fn check_elaborate(stage: &Stage) {
    let retries = |id: &str| -> Vec<u32> {
        let calls = stage.journal.of(id).into_iter();
        calls.map(|entry| entry.retry).collect()
    };
    for (id, expected) in [
        ("make/a", &[0][..]),
        ("make/b", &[0]),
        ("retried", &[0, 1]),
        ("update", &[0]),
        ("other", &[0, 1]),
        ("unmake", &[0]),
    ] {
        assert_eq!(retries(id), expected, "{id}");
    }
    super::check_warnings(stage);
}

/// Returns `true` if the essence of the object is handled, whatever others write.
fn is_done(object: &Value) -> bool {
    is_handled(object)
}

#[test]
fn handlers_succeed_once_amid_writes() {
    for kind in [Kind::WithStatus, Kind::Plain] {
        everywhere_on(kind, async |stage| {
            let _operator = stage.run(elaborate()).await;
            let other = Other::new(stage);
            let _writing: JoinSet<()> = other.writing(Part::Status, 0.1);
            stage.create("obj", json!({"field": 1})).await;
            stage.until("obj", "handled", is_done).await;
            stage.merge("obj", json!({"spec": {"field": 2}})).await;
            stage.until("obj", "handled", is_done).await;
            stage.delete_and_wait("obj").await;
            check_elaborate(stage);
        });
    }
}

#[test]
fn frequency_of_writes_does_not_matter() {
    for seconds in [0.3, 0.5, 1.0, 2.0] {
        sandboxed(async |stage| {
            let _operator = stage.run(elaborate()).await;
            let _writing = Other::new(stage).writing(Part::Status, seconds);
            stage.create("obj", json!({"field": 1})).await;
            stage.until("obj", "handled", is_done).await;
            stage.merge("obj", json!({"spec": {"field": 2}})).await;
            stage.until("obj", "handled", is_done).await;
            stage.delete_and_wait("obj").await;
            check_elaborate(stage);
        });
    }
}

#[test]
fn handlers_that_write_their_own_object_are_called_once() {
    for kind in [Kind::WithStatus, Kind::Plain] {
        everywhere_on(kind, async |stage| {
            let other = Other::new(stage);
            let writes = |handler: Declaration| {
                let other = other.clone();
                handler.does(move |call| {
                    let other = other.clone();
                    async move {
                        call.patch.with(|patch| {
                            patch.add_fn(PatchFn::new("count", |body| {
                                let count = body["status"]["count"].as_u64().unwrap_or(0);
                                body["status"]["count"] = json!(count + 1);
                                Ok(())
                            }));
                        });
                        other.write(Part::Status).await;
                        done()
                    }
                })
            };
            let handlers = [
                writes(on::create("make")),
                writes(on::update("update")),
                on::delete("unmake"),
            ];
            let _operator = stage.run(handlers).await;
            stage.create_handled("obj", json!({"field": 1})).await;
            stage.settled().await;
            stage.merge("obj", json!({"spec": {"field": 2}})).await;
            stage.until_settled("obj").await;
            let counted = |object: &Value| object["status"]["count"] == 2;
            stage.until("obj", "counted", counted).await;
            stage.delete_and_wait("obj").await;
            check_calls(stage, &[("make", 0), ("update", 0), ("unmake", 0)]);
        });
    }
}

#[test]
fn timers_that_patch_do_not_repeat_handlers() {
    everywhere(async |stage| {
        let timer = on::timer("ticking").interval(0.2).does(|call| async move {
            call.patch.with(|patch| {
                patch.add_fn(PatchFn::new("count", |body| {
                    let count = body["status"]["ticks"].as_u64().unwrap_or(0);
                    body["status"]["ticks"] = json!(count + 1);
                    Ok(())
                }));
            });
            done()
        });
        let mut handlers = elaborate();
        handlers.push(timer);
        let _operator = stage.run(handlers).await;
        stage.create("obj", json!({"field": 1})).await;
        stage.until("obj", "handled", is_done).await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.until("obj", "handled", is_done).await;
        stage.delete_and_wait("obj").await;
        check_elaborate(stage);
    });
}

#[test]
fn changes_back_and_forth_are_progress() {
    sandboxed(async |stage| {
        let handlers = [
            on::create("make"),
            on::update("update").does(|_| slowly(0.7)),
        ];
        let _operator = stage.run(handlers).await;
        stage.create_handled("obj", json!({"beat": 0})).await;
        let other = Other::new(stage);
        // The object changes before each update is handled, so that it is never unchanged.
        for number in 0..60 {
            other.write_value(Part::Spec, number % 2).await;
            stage.sleep(0.5).await;
        }
        stage.pass(5.0).await;
        super::check_warnings(stage);
        let object = stage.get("obj").await;
        assert!(is_handled(&object), "{object:#}");
        let calls = stage.journal.count("update");
        assert!(calls >= 20, "{calls} calls: the updates are delayed");
    });
}

/// Handles a creation and an update, and kills the operator at the n-th write. Returns `false` if
/// there is no such write.
async fn live(stage: &Stage, nth: u64, moment: Moment) -> bool {
    let operator = stage.run(elaborate()).await;
    let breakpoint = stage.breakpoint(nth, moment);
    let _writing = Other::new(stage).writing(Part::Status, 0.25);
    let killing = async {
        let time = std::time::Duration::from_secs(60);
        let reached = tokio::time::timeout(time, breakpoint.reached()).await;
        if reached.is_ok() {
            operator.kill().await;
            operator.start().await;
        }
        reached.is_ok()
    };
    let living = async {
        stage.create("obj", json!({"field": 1})).await;
        stage.until("obj", "handled", is_done).await;
        stage.merge("obj", json!({"spec": {"field": 2}})).await;
        stage.until("obj", "handled", is_done).await;
        stage.sleep(2.0).await;
    };
    tokio::join!(killing, living).0
}

#[test]
fn kill_at_every_write_of_a_change_repeats_at_most_one_call() {
    for kind in [Kind::WithStatus, Kind::Plain] {
        for moment in [Moment::Before, Moment::After] {
            let mut writes = 0;
            for nth in 1.. {
                let mut is_reached = false;
                sandboxed_on(kind, async |stage| {
                    is_reached = live(stage, nth, moment).await;
                    let what = format!("{kind:?}, {moment:?} write {nth}");
                    super::check_warnings(stage);
                    let mut repeated = 0;
                    for (id, calls) in [
                        ("make/a", 1),
                        ("make/b", 1),
                        ("retried", 2),
                        ("update", 1),
                        ("other", 2),
                    ] {
                        let made = stage.journal.count(id);
                        assert!(made >= calls, "{what}: {id} {made}");
                        repeated += made - calls;
                    }
                    // One handler was called in the cycle that was not recorded.
                    assert!(repeated <= usize::from(is_reached), "{what}: {repeated}");
                });
                if !is_reached {
                    break;
                }
                writes = nth;
            }
            let is_sandbox = kopf_tests::Server::from_env() == kopf_tests::Server::Sandbox;
            assert!(writes >= 6 || !is_sandbox, "{writes} writes");
        }
    }
}
