//! Sub-handlers.

use kopf_core::filter::ValueCriterion;
use kopf_core::lifecycle::AllAtOnce;
use kopf_engine::invocation::Call;
use serde_json::{Value, json};

use crate::front::{Declaration, build_sub, done, gives, on, permanent, register, temporary};
use crate::stage::{everywhere, is_handled, own_annotations, progress, sandboxed};

fn items(call: &Call) -> Vec<String> {
    let items = call.body().spec()["items"].as_array();
    let items = items.into_iter().flatten().filter_map(Value::as_str);
    items.map(str::to_owned).collect()
}

/// Returns a parent with one child per item, built by the function.
fn parent(kind: Declaration, child: fn(&str) -> Declaration) -> Declaration {
    kind.does(move |call| async move {
        for item in items(&call) {
            register(&call, &child(&item));
        }
        done()
    })
}

fn obedient(id: &str) -> Declaration {
    let item = id.to_owned();
    on::sub(id).does(move |_| {
        let item = item.clone();
        async move { gives(json!({"item": item})) }
    })
}

#[test]
fn children_run_one_per_cycle_with_their_parent() {
    everywhere(async |stage| {
        let _operator = stage.run([parent(on::create("make"), obedient)]).await;
        stage.create("obj", json!({"items": ["a", "b", "c"]})).await;
        let object = stage
            .until("obj", "handled", |object| {
                is_handled(object) && object["status"]["make/c"].is_object()
            })
            .await;
        stage.settled().await;
        let ids = stage.journal.ids();
        assert_eq!(ids, ["make", "make/a", "make", "make/b", "make", "make/c"]);
        assert_eq!(object["status"]["make/b"], json!({"item": "b"}));
        assert_eq!(own_annotations(&object).len(), 1, "{object:#}");
        assert!(stage.log.has(
            "obj",
            "Handler 'make' has unfinished sub-handlers. Will retry soon."
        ));
        assert!(
            stage
                .log
                .has("obj", "Creation is processed: 1 succeeded; 0 failed.")
        );
    });
}

#[test]
fn all_at_once_runs_children_together() {
    everywhere(async |stage| {
        let setup = stage.operator([parent(on::create("make"), obedient)]);
        let _operator = setup.lifecycle(AllAtOnce).start().await;
        stage
            .create_handled("obj", json!({"items": ["a", "b", "c"]}))
            .await;
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["make", "make/a", "make/b", "make/c"]);
        assert_eq!(stage.writes().len(), 2);
    });
}

#[test]
fn failing_child_is_retried_without_repeating_the_others() {
    sandboxed(async |stage| {
        let child = |id: &str| {
            let last = id == "b";
            on::sub(id).does(move |call| async move {
                if last && call.retry < 2 {
                    return temporary("not yet", 30.0);
                }
                done()
            })
        };
        let operator = stage.run([parent(on::create("make"), child)]).await;
        stage
            .create_settled("obj", json!({"items": ["a", "b", "c"]}))
            .await;
        let object = stage.get("obj").await;
        let make = progress(&object, "make");
        assert_eq!(make["subrefs"], json!(["make/a", "make/b", "make/c"]));
        assert_eq!(make["message"], "None");
        assert_eq!(progress(&object, "make.a")["success"], true);
        assert_eq!(progress(&object, "make.b")["retries"], 1);
        assert_eq!(make["delayed"].as_str().map(str::len), Some(32));

        stage.pass(31.0).await;
        operator.restart().await;
        stage.pass(31.0).await;
        assert_eq!(stage.journal.count("make/a"), 1);
        assert_eq!(stage.journal.count("make/c"), 1);
        let retries: Vec<_> = stage.journal.of("make/b").iter().map(|e| e.retry).collect();
        assert_eq!(retries, [0, 1, 2]);
        assert!(is_handled(&stage.get("obj").await));
    });
}

#[test]
fn permanently_failed_child_does_not_fail_its_parent() {
    everywhere(async |stage| {
        let child = |id: &str| {
            let first = id == "a";
            on::sub(id).does(move |_| async move {
                if first {
                    return permanent("never");
                }
                done()
            })
        };
        let _operator = stage.run([parent(on::create("make"), child)]).await;
        stage
            .create_handled("obj", json!({"items": ["a", "b"]}))
            .await;
        assert!(
            stage
                .log
                .has("obj", "Handler 'make/a' failed permanently: never")
        );
        assert!(stage.log.has("obj", "Handler 'make' succeeded."));
        assert!(
            stage
                .log
                .has("obj", "Creation is processed: 1 succeeded; 0 failed.")
        );
    });
}

#[test]
fn children_can_be_nested() {
    everywhere(async |stage| {
        let child = on::sub("child").does(|call| async move {
            register(&call, &obedient("grandchild"));
            register(&call, &obedient("other"));
            gives(json!("child"))
        });
        let make = on::create("make").does(move |call| {
            register(&call, &child);
            std::future::ready(gives(json!("parent")))
        });
        let _operator = stage.run([make]).await;
        let breakpoint = stage.breakpoint(1, kopf_testing::recording::Moment::After);
        stage.create("obj", json!({})).await;
        stage.within("the first write", breakpoint.reached()).await;
        let object = stage.get("obj").await;
        let all = ["make/child", "make/child/grandchild", "make/child/other"];
        assert_eq!(progress(&object, "make")["subrefs"], json!(all));
        assert_eq!(progress(&object, "make.child")["subrefs"], json!(all[1..]));
        breakpoint.release();
        let object = stage
            .until("obj", "handled", |object| {
                is_handled(object) && object["status"]["make"] == "parent"
            })
            .await;
        assert_eq!(object["status"]["make/child"], "child");
        assert_eq!(
            object["status"]["make/child/grandchild"],
            json!({"item": "grandchild"})
        );
        assert_eq!(own_annotations(&object).len(), 1, "{object:#}");
        assert_eq!(stage.journal.count("make/child/grandchild"), 1);
        assert_eq!(stage.journal.count("make/child/other"), 1);
    });
}

#[test]
fn children_can_be_executed_within_the_parent() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            let subs = call.subs.clone().unwrap();
            register(&call, &obedient("a"));
            register(&call, &obedient("b"));
            subs.execute().await?;
            gives(json!("after"))
        });
        let _operator = stage.run([make]).await;
        stage.create("obj", json!({})).await;
        let object = stage
            .until("obj", "handled", |object| {
                is_handled(object) && object["status"]["make"] == "after"
            })
            .await;
        assert_eq!(object["status"]["make/b"], json!({"item": "b"}));
        assert_eq!(stage.journal.count("make/a"), 1);
        assert_eq!(stage.journal.count("make/b"), 1);
    });
}

#[test]
fn children_registered_after_an_execution_run_later() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            let subs = call.subs.clone().unwrap();
            register(&call, &obedient("first"));
            subs.execute().await?;
            register(&call, &obedient("second"));
            subs.execute().await?;
            let given = vec![build_sub(&call, &obedient("given"))];
            subs.execute_these(given, None).await?;
            register(&call, &obedient("last"));
            done()
        });
        let _operator = stage.run([make]).await;
        stage.create("obj", json!({})).await;
        let object = stage
            .until("obj", "handled with all results", |object| {
                is_handled(object) && object["status"]["make/last"].is_object()
            })
            .await;
        assert_eq!(object["status"]["make/second"], json!({"item": "second"}));
        let children = ["make/first", "make/second", "make/given", "make/last"];
        for child in children {
            assert_eq!(stage.journal.count(child), 1, "{child}");
        }
        let ids = stage.journal.ids();
        let order: Vec<_> = ids.iter().filter(|id| children.contains(&&***id)).collect();
        assert_eq!(order, children);
    });
}

#[test]
fn children_can_be_executed_explicitly_with_another_lifecycle() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            let subs = call.subs.clone().unwrap();
            let children = ["a", "b"].map(|id| build_sub(&call, &obedient(id)));
            let lifecycle = std::sync::Arc::new(AllAtOnce);
            subs.execute_these(children.into(), Some(lifecycle)).await?;
            done()
        });
        let _operator = stage.run([make]).await;
        stage.create_handled("obj", json!({})).await;
        assert_eq!(stage.journal.ids(), ["make", "make/a", "make/b"]);
    });
}

#[test]
fn children_receive_the_cause_of_their_parent_and_are_filtered_by_it() {
    everywhere(async |stage| {
        let make = on::update("watch")
            .field("spec.deep")
            .does(|call| async move {
                register(&call, &on::sub("x").field("x"));
                register(&call, &on::sub("y").field("y"));
                done()
            });
        let _operator = stage.run([make]).await;
        stage
            .create_handled("obj", json!({"deep": {"x": 1, "y": 1}, "other": 1}))
            .await;
        stage
            .merge("obj", json!({"spec": {"deep": {"x": 2}, "other": 2}}))
            .await;
        stage.until_settled("obj").await;
        assert_eq!(stage.journal.count("watch/spec.deep/y"), 0);
        let entry = stage.journal.only("watch/spec.deep/x");
        assert_eq!((entry.old, entry.new), (json!(1), json!(2)));
        assert_eq!(entry.diff, json!([["change", [], 1, 2]]));
    });
}

#[test]
fn progress_of_undeclared_children_is_removed() {
    sandboxed(async |stage| {
        let child = |id: &str| {
            let stays = id == "b";
            on::sub(id).does(move |call| async move {
                if stays && call.retry < 1 {
                    return temporary("not yet", 30.0);
                }
                done()
            })
        };
        let _operator = stage.run([parent(on::create("make"), child)]).await;
        stage
            .create_settled("obj", json!({"items": ["a", "b"]}))
            .await;
        assert_eq!(
            own_annotations(&stage.get("obj").await),
            ["attempted-essences", "make", "make.a", "make.b"]
        );
        stage.merge("obj", json!({"spec": {"items": ["b"]}})).await;
        stage.pass(60.0).await;
        let object = stage.get("obj").await;
        assert!(is_handled(&object), "{object:#}");
    });
}

#[test]
fn children_of_creations_cannot_be_filtered_by_changes() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            let child = on::sub("child")
                .field("spec.field")
                .old(ValueCriterion::Present);
            let subs = call.subs.as_ref().unwrap();
            let refused = subs.register(build_sub(&call, &child));
            gives(json!(refused.unwrap_err().to_string()))
        });
        let _operator = stage.run([make]).await;
        stage.create("obj", json!({"field": 1})).await;
        let object = stage
            .until("obj", "handled", |object| {
                object["status"]["make"].is_string()
            })
            .await;
        let text = object["status"]["make"].as_str().unwrap();
        assert!(text.contains("make/child"), "{text}");
        assert_eq!(stage.journal.ids(), ["make"]);
    });
}

#[test]
fn blocking_parents_release_their_threads_to_children() {
    sandboxed(async |stage| {
        let parent = on::create("make").blocks(|call| {
            for item in ["a", "b"] {
                let child = on::sub(item).blocks(|call| gives(json!({"by": call.id.as_ref()})));
                register(&call, &child);
            }
            let subs = call.subs.clone().expect("the handler is a change handler");
            tokio::runtime::Handle::current().block_on(subs.execute())?;
            done()
        });
        let setup = stage.operator([parent]).lifecycle(AllAtOnce);
        let _operator = setup
            .settings(|settings| settings.execution.max_workers = Some(1))
            .start()
            .await;
        for name in ["one", "two", "three"] {
            stage.create(name, json!({})).await;
        }
        for name in ["one", "two", "three"] {
            let object = stage
                .until(name, "handled with results", |object| {
                    is_handled(object) && object["status"]["make/b"].is_object()
                })
                .await;
            assert_eq!(object["status"]["make/a"], json!({"by": "make/a"}));
        }
    });
}

#[test]
fn children_with_unstorable_ids_are_rejected() {
    sandboxed(async |stage| {
        let parent = on::create("make").does(|call| async move {
            let subs = call.subs.clone().expect("the handler is a change handler");
            let children = vec![build_sub(&call, &on::sub("a b"))];
            subs.execute_these(children, None).await?;
            done()
        });
        let _operator = stage.run([parent]).await;
        stage.create_handled("obj", json!({})).await;
        assert_eq!(stage.journal.ids(), ["make"]);
        assert!(stage.log.has(
            "obj",
            "Handler 'make' failed permanently: cannot register a sub-handler: the id \
             \"make/a b\" cannot be kept in an annotation"
        ));
    });
}
