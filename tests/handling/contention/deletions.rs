//! Deletions of objects that others change.

use std::time::Duration;

use kopf_core::lifecycle::AllAtOnce;
use kopf_core::patch::PatchFn;
use kopf_core::progress::StatusProgressStorage;
use serde_json::{Value, json};

use super::{Other, Part, check_calls, slowly};
use crate::front::{Declaration, done, on, register, temporary};
use crate::stage::{
    FINALIZER, Kind, Stage, everywhere, everywhere_on, finalizers, own_annotations, sandboxed,
    sandboxed_on,
};

const PARTS: [Part; 3] = [Part::Status, Part::Labels, Part::Spec];

/// Returns the JSON patches of the operator that remove the finalizer.
fn removals(stage: &Stage) -> Vec<Value> {
    let bodies = stage.writes_to("obj").into_iter().map(|call| call.body);
    let is_removal = |body: &Value| {
        let operations = body.as_array().into_iter().flatten();
        operations.into_iter().any(|operation| {
            let path = operation["path"].as_str().unwrap_or_default();
            operation["op"] == "remove" && path.starts_with("/metadata/finalizers/")
        })
    };
    bodies.filter(is_removal).collect()
}

/// Returns a handler that writes its own object by a client, and is called this number of times.
fn writing(other: &Other, part: Part, calls: u32) -> Declaration {
    let other = other.clone();
    on::delete("unmake").does(move |call| {
        let other = other.clone();
        async move {
            other.write(part).await;
            if call.retry + 1 < calls {
                return temporary("not yet", 0.5);
            }
            done()
        }
    })
}

#[test]
fn removal_tests_the_finalizer_and_not_the_version() {
    everywhere(async |stage| {
        let _operator = stage.run([on::delete("unmake")]).await;
        let metadata = json!({"finalizers": ["example.com/a"]});
        let made = stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        stage.until_handled("obj").await;
        stage.delete("obj").await;
        stage
            .until("obj", "released", |object| finalizers(object).len() == 1)
            .await;
        let uid = &made["metadata"]["uid"];
        let expected = json!([
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "test", "path": "/metadata/finalizers/1", "value": FINALIZER},
            {"op": "remove", "path": "/metadata/finalizers/1"},
        ]);
        assert_eq!(removals(stage), [expected]);
    });
}

#[test]
fn handler_that_writes_its_own_object_is_called_once() {
    for kind in [Kind::WithStatus, Kind::Plain] {
        everywhere_on(kind, async |stage| {
            for part in PARTS {
                let handler = writing(&Other::new(stage), part, 1);
                let _operator = stage.run([handler]).await;
                stage.create_handled("obj", json!({})).await;
                stage.delete_and_wait("obj").await;
                stage.settled().await;
                check_calls(stage, &[("unmake", 0)]);
                stage.journal.clear();
            }
        });
    }
}

#[test]
fn handler_that_writes_its_own_object_in_every_call_is_retried_as_usual() {
    everywhere(async |stage| {
        for part in PARTS {
            let handler = writing(&Other::new(stage), part, 3);
            let _operator = stage.run([handler]).await;
            stage.create_handled("obj", json!({})).await;
            stage.delete_and_wait("obj").await;
            stage.settled().await;
            check_calls(stage, &[("unmake", 0), ("unmake", 1), ("unmake", 2)]);
            stage.journal.clear();
        }
    });
}

/// Deletes an object that another client writes all the time.
async fn delete_amid_writes(stage: &Stage, part: Part, seconds: f64) {
    let handlers = || {
        [
            on::delete("one").does(|_| slowly(1.5)),
            on::delete("two").does(|_| slowly(1.5)),
        ]
    };
    let _operator = stage.run(handlers()).await;
    stage.create_handled("obj", json!({})).await;
    let _writing = Other::new(stage).writing(part, seconds);
    stage.delete_and_wait("obj").await;
    check_calls(stage, &[("one", 0), ("two", 0)]);
    assert_eq!(removals(stage).len(), 1, "there are no conflicts");
}

#[test]
fn clients_that_write_all_the_time_do_not_repeat_slow_handlers() {
    for kind in [Kind::WithStatus, Kind::Plain] {
        for part in PARTS {
            everywhere_on(kind, async |stage| {
                delete_amid_writes(stage, part, 0.1).await;
            });
        }
    }
}

#[test]
fn frequency_of_writes_does_not_matter() {
    for kind in [Kind::WithStatus, Kind::Plain] {
        for seconds in [0.1, 0.3, 0.5, 1.0, 1.5, 2.0] {
            sandboxed_on(kind, async |stage| {
                delete_amid_writes(stage, Part::Status, seconds).await;
            });
        }
    }
}

#[test]
fn transformations_are_applied_to_the_newest_version() {
    everywhere(async |stage| {
        let other = Other::new(stage);
        let handler = on::delete("unmake").does(move |call| {
            let other = other.clone();
            async move {
                call.patch.with(|patch| {
                    patch.add_fn(PatchFn::new("count", |body| {
                        body["spec"]["left"] = body["spec"]["beat"].clone();
                        Ok(())
                    }));
                });
                other.write_value(Part::Spec, 7).await;
                done()
            }
        });
        let _operator = stage.run([handler]).await;
        let metadata = json!({"finalizers": ["example.com/a"]});
        stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        stage.until_handled("obj").await;
        stage.delete("obj").await;
        let object = stage
            .until("obj", "released", |object| finalizers(object).len() == 1)
            .await;
        assert_eq!(object["spec"], json!({"beat": 7, "left": 7}));
        stage.settled().await;
        check_calls(stage, &[("unmake", 0)]);
        for removal in removals(stage) {
            assert_eq!(removal[0]["path"], "/metadata/resourceVersion");
        }
    });
}

#[test]
fn transformations_of_the_status_are_not_lost_or_repeated() {
    everywhere(async |stage| {
        let other = Other::new(stage);
        let handler = on::delete("unmake").does(move |call| {
            let other = other.clone();
            async move {
                call.patch.with(|patch| {
                    patch.add_fn(PatchFn::new("count", |body| {
                        let count = body["status"]["count"].as_u64().unwrap_or(0);
                        body["status"]["count"] = json!(count + 1);
                        Ok(())
                    }));
                });
                other.write(Part::Labels).await;
                done()
            }
        });
        let _operator = stage.run([handler]).await;
        let metadata = json!({"finalizers": ["example.com/a"]});
        stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        stage.until_handled("obj").await;
        stage.delete("obj").await;
        let object = stage
            .until("obj", "released", |object| finalizers(object).len() == 1)
            .await;
        assert_eq!(object["status"]["count"], 1);
        check_calls(stage, &[("unmake", 0)]);
    });
}

#[test]
fn changed_list_of_finalizers_does_not_repeat_handlers() {
    everywhere(async |stage| {
        let other = Other::new(stage);
        let handler = on::delete("unmake").does(move |_| {
            let other = other.clone();
            async move {
                // Our finalizer gets another position.
                let body = json!({"metadata": {"finalizers": [FINALIZER, "example.com/b"]}});
                other.merge(&other.path, &body).await;
                done()
            }
        });
        let _operator = stage.run([handler]).await;
        let metadata = json!({"finalizers": ["example.com/a", "example.com/b"]});
        stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        stage.until_handled("obj").await;
        stage.delete("obj").await;
        let object = stage
            .until("obj", "released", |object| {
                !finalizers(object).contains(&FINALIZER)
            })
            .await;
        assert_eq!(finalizers(&object), ["example.com/b"]);
        stage.settled().await;
        check_calls(stage, &[("unmake", 0)]);
        assert_eq!(own_annotations(&object), ["last-handled-configuration"]);
    });
}

#[test]
fn timers_and_daemons_that_patch_do_not_repeat_handlers() {
    for kind in [Kind::WithStatus, Kind::Plain] {
        everywhere_on(kind, async |stage| {
            let count = |call: &kopf_engine::invocation::Call, key: &'static str| {
                call.patch.with(|patch| {
                    patch.status_mut().insert(key.to_owned(), json!(call.retry));
                    patch.add_fn(PatchFn::new("count", move |body| {
                        let count = body["spec"][key].as_u64().unwrap_or(0);
                        body["spec"][key] = json!(count + 1);
                        Ok(())
                    }));
                });
            };
            let timer = on::timer("ticking").interval(0.2).does(move |call| {
                count(&call, "ticks");
                async { done() }
            });
            let daemon =
                on::daemon("working")
                    .cancellation_timeout(1.0)
                    .does(move |call| async move {
                        let stopped = call.stopped.clone().unwrap();
                        stopped.wait(None).await;
                        count(&call, "ends");
                        done()
                    });
            let handlers = [
                timer,
                daemon,
                on::delete("one").does(|_| slowly(1.0)),
                on::delete("two").does(|_| slowly(1.0)),
            ];
            let _operator = stage.run(handlers).await;
            stage.create_handled("obj", json!({})).await;
            stage.delete_and_wait("obj").await;
            assert_eq!(stage.journal.count("one"), 1);
            assert_eq!(stage.journal.count("two"), 1);
            super::check_warnings(stage);
        });
    }
}

/// Returns handlers with retries and sub-handlers.
fn elaborate() -> Vec<Declaration> {
    let parent = on::delete("parent").does(|call| async move {
        register(&call, &on::sub("a").does(|_| slowly(0.4)));
        let retried = on::sub("b").does(|call| async move {
            if call.retry == 0 {
                return temporary("not yet", 0.3);
            }
            done()
        });
        register(&call, &retried);
        done()
    });
    let retried = on::delete("retried").does(|call| async move {
        if call.retry < 2 {
            return temporary("not yet", 0.7);
        }
        slowly(0.5).await
    });
    vec![parent, retried, on::delete("simple").does(|_| slowly(0.3))]
}

/// Checks that each handler has succeeded once.
#[track_caller]
fn check_elaborate(stage: &Stage) {
    let retries = |id: &str| -> Vec<u32> {
        let calls = stage.journal.of(id).into_iter();
        calls.map(|entry| entry.retry).collect()
    };
    assert_eq!(retries("parent/a"), [0]);
    assert_eq!(retries("parent/b"), [0, 1]);
    assert_eq!(retries("retried"), [0, 1, 2]);
    assert_eq!(retries("simple"), [0]);
    super::check_warnings(stage);
}

#[test]
fn retries_and_sub_handlers_succeed_once_amid_writes() {
    for kind in [Kind::WithStatus, Kind::Plain] {
        everywhere_on(kind, async |stage| {
            let _operator = stage.run(elaborate()).await;
            stage.create_handled("obj", json!({})).await;
            let _writing = Other::new(stage).writing(Part::Status, 0.1);
            stage.delete_and_wait("obj").await;
            check_elaborate(stage);
        });
        sandboxed_on(kind, async |stage| {
            let setup = stage.operator(elaborate()).lifecycle(AllAtOnce);
            let _operator = setup.start().await;
            stage.create_handled("obj", json!({})).await;
            let _writing = Other::new(stage).writing(Part::Spec, 0.13);
            stage.delete_and_wait("obj").await;
            check_elaborate(stage);
        });
    }
}

#[test]
fn records_are_erased_together_with_the_finalizer() {
    everywhere(async |stage| {
        let _operator = stage.run(elaborate()).await;
        let metadata = json!({"finalizers": ["example.com/a"]});
        stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        stage.until_handled("obj").await;
        stage.delete("obj").await;
        let object = stage
            .until("obj", "released", |object| {
                !finalizers(object).contains(&FINALIZER)
            })
            .await;
        assert_eq!(own_annotations(&object), ["last-handled-configuration"]);
        stage.settled().await;
        check_elaborate(stage);
        let mut erased = 0;
        for call in stage.writes_to("obj") {
            let annotations = call.body.pointer("/metadata/annotations");
            let annotations = annotations.and_then(Value::as_object);
            let nulls = annotations.into_iter().flatten();
            let nulls = nulls.filter(|(key, value)| value.is_null() && !key.ends_with("essences"));
            assert_eq!(nulls.count(), 0, "{}", call.body);
            let operations = call.body.as_array().into_iter().flatten();
            erased += operations
                .filter(|operation| operation["op"] == "remove")
                .count();
        }
        assert!(erased >= 5, "{erased} with the finalizer");
    });
}

#[test]
fn records_in_the_status_are_left_and_count_as_finished() {
    everywhere(async |stage| {
        let operator = stage
            .operator(elaborate())
            .settings(|settings| {
                let storage = StatusProgressStorage::default();
                settings.persistence.progress_storage = std::sync::Arc::new(storage);
            })
            .start()
            .await;
        let metadata = json!({"finalizers": ["example.com/a"]});
        stage
            .create_with("obj", json!({"metadata": metadata}))
            .await;
        stage
            .until("obj", "handled", |object| finalizers(object).len() == 2)
            .await;
        stage.settled().await;
        let _writing = Other::new(stage).writing(Part::Status, 0.2);
        stage.delete("obj").await;
        let object = stage
            .until("obj", "released", |object| {
                !finalizers(object).contains(&FINALIZER)
            })
            .await;
        let records = object["status"]["kopf"]["progress"].as_object();
        assert!(records.is_some_and(|records| !records.is_empty()));
        operator.restart().await;
        stage.sleep(1.0).await;
        check_elaborate(stage);
        let writes = stage.writes_to("obj").len();
        stage.sleep(1.0).await;
        assert_eq!(stage.writes_to("obj").len(), writes);
    });
}

#[test]
fn deletion_of_one_handler_takes_one_write() {
    everywhere(async |stage| {
        let parent = on::delete("parent").does(|call| async move {
            register(&call, &on::sub("a"));
            done()
        });
        let _operator = stage.run([parent]).await;
        stage.create_handled("obj", json!({})).await;
        stage.settled().await;
        let before = stage.writes().len();
        stage.delete_and_wait("obj").await;
        assert_eq!(stage.writes().len() - before, 1);
        check_calls(stage, &[("parent", 0), ("parent/a", 0)]);
    });
}

#[test]
fn slow_requests_amid_writes_do_not_repeat_handlers() {
    sandboxed(async |stage| {
        use kopf_sandbox::fault::{Fault, Verb};
        let _operator = stage.run(elaborate()).await;
        stage.create_handled("obj", json!({})).await;
        let latency = Fault::latency(Duration::from_millis(350)).verb(Verb::Patch);
        stage.faults().inject(latency);
        let _writing = Other::new(stage).writing(Part::Status, 0.1);
        stage.delete_and_wait("obj").await;
        check_elaborate(stage);
    });
}
