//! Conversion of patches into API calls.

use std::sync::Arc;

use kopf_core::field::FieldPath;
use kopf_core::lifecycle::AllAtOnce;
use kopf_core::patch::{Patch, PatchFn};
use kopf_sandbox::fault::{Fault, Verb};
use kopf_testing::recording::{Call, Moment};
use kopf_tests::webhook::{Verdict, Webhook, rule};
use serde_json::{Value, json};

use crate::front::{Declaration, done, gives, on};
use crate::stage::{
    FINALIZER, Kind, Stage, assert_rarer, everywhere, everywhere_on, finalizers, is_handled,
    last_handled, sandboxed,
};

/// Returns a transformation that sets a value.
fn put(path: &'static [&'static str], value: Value) -> PatchFn {
    PatchFn::new("put", move |body: &mut Value| {
        let mut place = body;
        for step in path {
            place = &mut place[*step];
        }
        *place = value.clone();
        Ok(())
    })
}

#[test]
fn patch_is_written_in_four_calls_in_order() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            call.patch.with(|patch| {
                patch.set(&FieldPath::parse("spec.merged"), json!(1));
                patch.set(&FieldPath::parse("metadata.labels.merged"), json!("yes"));
                patch.add_fn(put(&["spec", "put"], json!([1, 2])));
                patch.add_fn(put(&["status", "put"], json!("there")));
            });
            gives(json!("result"))
        });
        let _operator = stage.run([make]).await;
        stage.create("obj", json!({"field": 1})).await;
        let object = stage
            .until("obj", "written", |object| {
                object["status"]["put"] == "there"
            })
            .await;
        stage.settled().await;
        assert_eq!(
            object["spec"],
            json!({"field": 1, "merged": 1, "put": [1, 2]})
        );
        assert_eq!(object["metadata"]["labels"]["merged"], "yes");
        assert_eq!(object["status"], json!({"make": "result", "put": "there"}));

        let writes = stage.writes();
        let kinds: Vec<_> = writes[..4]
            .iter()
            .map(|call| (&*call.content_type, call.subresource.as_deref()))
            .collect();
        assert_eq!(
            kinds,
            [
                ("application/merge-patch+json", None),
                ("application/merge-patch+json", Some("status")),
                ("application/json-patch+json", None),
                ("application/json-patch+json", Some("status")),
            ]
        );
        assert!(writes[0].body.get("status").is_none());
        assert_eq!(writes[1].body, json!({"status": {"make": "result"}}));
        let test = |call: usize| {
            let version = writes[call].resource_version();
            json!({"op": "test", "path": "/metadata/resourceVersion", "value": version})
        };
        let add = json!({"op": "add", "path": "/spec/put", "value": [1, 2]});
        assert_eq!(writes[2].body, json!([test(1), add]));
        let add = json!({"op": "add", "path": "/status/put", "value": "there"});
        assert_eq!(writes[3].body, json!([test(2), add]));
    });
}

#[test]
fn patch_is_written_in_two_calls_without_the_subresource() {
    everywhere_on(Kind::Plain, async |stage| {
        let make = on::create("make").does(|call| async move {
            call.patch.with(|patch| {
                patch.add_fn(put(&["spec", "put"], json!(1)));
                patch.add_fn(put(&["status", "put"], json!(2)));
            });
            gives(json!("result"))
        });
        let _operator = stage.run([make]).await;
        stage.create("obj", json!({})).await;
        let object = stage
            .until("obj", "written", |object| object["status"]["put"] == 2)
            .await;
        assert_eq!(object["spec"], json!({"put": 1}));
        assert_eq!(object["status"], json!({"make": "result", "put": 2}));
        stage.settled().await;
        let types: Vec<_> = stage
            .writes()
            .into_iter()
            .take(2)
            .map(|c| c.content_type)
            .collect();
        assert_eq!(
            types,
            [
                "application/merge-patch+json",
                "application/json-patch+json"
            ]
        );
    });
}

#[test]
fn cluster_scoped_objects_are_handled() {
    everywhere_on(Kind::Cluster, async |stage| {
        let make = on::create("make").does(|_| async { gives(json!(1)) });
        let _operator = stage.run([make, on::delete("unmake")]).await;
        stage.create("obj", json!({})).await;
        let object = stage
            .until("obj", "handled", |object| {
                is_handled(object) && object["status"]["make"] == 1
            })
            .await;
        assert_eq!(finalizers(&object), [FINALIZER]);
        stage.delete_and_wait("obj").await;
        assert_eq!(stage.journal.ids(), ["make", "unmake"]);
        assert!(stage.writes().iter().all(|call| call.namespace.is_none()));
    });
}

#[test]
fn transformation_without_changes_is_not_written() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            call.patch
                .with(|patch| patch.add_fn(put(&["spec", "field"], json!(1))));
            done()
        });
        let _operator = stage.run([make]).await;
        stage.create_handled("obj", json!({"field": 1})).await;
        stage.settled().await;
        assert_eq!(stage.writes().len(), 1);
    });
}

#[test]
fn changes_by_a_handler_are_an_update() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            call.patch
                .with(|patch| patch.set(&FieldPath::parse("spec.defaulted"), json!(1)));
            done()
        });
        let _operator = stage.run([make, on::update("updated")]).await;
        stage.create("obj", json!({})).await;
        stage
            .until("obj", "handled", |object| {
                last_handled(object)["spec"]["defaulted"] == 1
            })
            .await;
        stage.settled().await;
        // The diff-base is the essence that the handler received, so its own change is an update.
        assert_eq!(stage.journal.ids(), ["make", "updated"]);
        let diff = stage.journal.only("updated").diff;
        assert_eq!(diff, json!([["add", ["spec", "defaulted"], null, 1]]));
    });
}

#[test]
fn write_to_a_removed_object_is_not_an_error() {
    everywhere(async |stage| {
        let make = on::create("make").does(|_| async { gives(json!(1)) });
        let _operator = stage.run([make]).await;
        let breakpoint = stage.breakpoint(1, Moment::Before);
        stage.create("obj", json!({})).await;
        stage.within("the write", breakpoint.reached()).await;
        stage.delete("obj").await;
        breakpoint.release();
        stage
            .wait_for("the removal to be logged", || {
                stage.log.has("obj", "Deleted, really deleted")
            })
            .await;
        stage.settled().await;
        let writes = stage.writes();
        assert_eq!(writes.len(), 1, "nothing is sent after a 404: {writes:#?}");
        assert_eq!(writes[0].status, Some(404));
        assert!(
            stage
                .log
                .records()
                .iter()
                .all(|r| r.level > tracing::Level::WARN)
        );
    });
}

#[test]
fn rejected_transformation_is_repeated_on_the_newer_version() {
    everywhere(async |stage| {
        let make = on::create("make");
        let _operator = stage.run([make, on::delete("unmake")]).await;
        let breakpoint = stage.breakpoint(1, Moment::Before);
        stage.create("obj", json!({"field": 1})).await;
        stage.within("the write", breakpoint.reached()).await;
        let others = json!({"metadata": {"finalizers": ["example.com/other"]}});
        stage.merge("obj", others).await;
        breakpoint.release();
        let object = stage.until_handled("obj").await;
        assert_eq!(finalizers(&object), ["example.com/other", FINALIZER]);
        let writes = stage.writes();
        assert_eq!(writes[0].status, Some(422));
        assert!(
            writes[1..]
                .iter()
                .all(kopf_testing::recording::Call::is_accepted)
        );
        assert_eq!(stage.journal.ids(), ["make"]);
        assert!(
            stage
                .log
                .records()
                .iter()
                .all(|r| r.level > tracing::Level::WARN)
        );
    });
}

#[test]
fn transformations_of_handlers_are_repeated_after_a_conflict() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            call.patch
                .with(|patch| patch.add_fn(put(&["spec", "put"], json!(1))));
            gives(json!("result"))
        });
        let _operator = stage.run([make]).await;
        // The third call is the JSON patch.
        let breakpoint = stage.breakpoint(3, Moment::Before);
        stage.create("obj", json!({"field": 1})).await;
        stage.within("the write", breakpoint.reached()).await;
        stage
            .merge("obj", json!({"metadata": {"labels": {"a": "b"}}}))
            .await;
        breakpoint.release();
        let object = stage
            .until("obj", "written", |object| object["spec"]["put"] == 1)
            .await;
        assert_eq!(object["spec"], json!({"field": 1, "put": 1}));
        assert_eq!(object["status"]["make"], "result");
        stage.settled().await;
        assert_eq!(stage.journal.ids(), ["make"], "its outcome was recorded");
        let refused = stage
            .writes()
            .into_iter()
            .filter(|call| call.status == Some(422));
        assert_eq!(refused.count(), 1);
    });
}

#[test]
fn pruned_fields_are_logged_as_warnings() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            // The schema has only spec and status.
            call.patch
                .with(|patch| patch.set(&FieldPath::parse("unknown.field"), json!(1)));
            done()
        });
        let _operator = stage.run([make]).await;
        stage.create_handled("obj", json!({})).await;
        stage.settled().await;
        let warnings: Vec<_> = stage
            .log
            .of("obj")
            .into_iter()
            .filter(|record| record.level == tracing::Level::WARN)
            .map(|record| record.message)
            .collect();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(
            warnings[0].starts_with("Merge-patching finished with inconsistencies: "),
            "{warnings:?}"
        );
        assert!(warnings[0].contains("unknown"), "{warnings:?}");
    });
}

#[test]
fn lists_replace_lists_and_null_removes() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            call.patch.with(|patch| {
                patch.set(&FieldPath::parse("spec.list"), json!([3]));
                patch.set(&FieldPath::parse("spec.gone"), json!(null));
            });
            done()
        });
        let _operator = stage.run([make]).await;
        stage
            .create("obj", json!({"list": [1, 2], "gone": 1, "deep": {}}))
            .await;
        let object = stage
            .until("obj", "written", |object| {
                object["spec"]["list"] == json!([3])
            })
            .await;
        assert_eq!(object["spec"], json!({"list": [3], "deep": {}}));
    });
}

#[test]
fn conflict_without_a_newer_version_is_retried() {
    sandboxed(async |stage| {
        let refusal = Fault::error(422).verb(Verb::Patch);
        stage.faults().inject(refusal.times(1));
        let _operator = stage.run([on::delete("unmake")]).await;
        stage.create("obj", json!({})).await;
        stage.pass(1000.0).await;
        stage
            .merge("obj", json!({"metadata": {"labels": {"a": "b"}}}))
            .await;
        stage.settled().await;
        let object = stage.get("obj").await;
        assert_eq!(finalizers(&object), [FINALIZER]);
        assert!(is_handled(&object), "{object:#}");
    });
}

#[test]
fn invalid_patch_waits_for_a_change() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            let label = call.body().spec()["label"].clone();
            call.patch
                .with(|patch| patch.set(&FieldPath::parse("metadata.labels.made"), label));
            done()
        });
        let _operator = stage.run([make]).await;
        stage
            .create("obj", json!({"label": "not a valid label!"}))
            .await;
        stage
            .wait_for("the rejection", || {
                stage.writes().iter().any(|call| call.status == Some(422))
            })
            .await;
        stage.create("other", json!({"label": "fine"})).await;
        stage
            .until("other", "labelled", |object| {
                object["metadata"]["labels"]["made"] == "fine"
            })
            .await;
        let tried = stage.journal.all().into_iter();
        let tried = tried.filter(|entry| entry.object == "obj");
        assert_eq!(tried.count(), 1, "a retry would fail again");

        stage
            .merge("obj", json!({"spec": {"label": "better"}}))
            .await;
        stage
            .until("obj", "labelled", |object| {
                object["metadata"]["labels"]["made"] == "better"
            })
            .await;
    });
}

#[test]
fn results_without_a_status_field_are_dropped_with_a_warning() {
    everywhere(async |stage| {
        let make = on::create("make").on(&["", "v1", "configmaps"]);
        let make = make.does(|_| async { gives(json!({"a": 1})) });
        let _operator = stage.run([make]).await;
        let path = stage.api.ns_path("configmaps");
        let config_map = kopf_tests::objects::config_map("settings", json!({"a": "1"}));
        stage.api.created(&path, &config_map).await;
        stage
            .wait_for("the object to be handled", || {
                stage.log.has("settings", "inconsistencies")
            })
            .await;
        stage.settled().await;
        assert_eq!(stage.journal.count("make"), 1);
        assert_eq!(stage.writes_to("settings").len(), 1);
        let object = stage.api.get(&format!("{path}/settings")).await;
        let essence = json!({"data": {"a": "1"}});
        assert_eq!(last_handled(&object.json), essence);
    });
}

#[test]
fn transformations_can_be_async() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            let later = PatchFn::awaited("later", |mut body| {
                Box::pin(async move {
                    tokio::task::yield_now().await;
                    let steps = body["spec"]["steps"].as_array_mut();
                    steps.ok_or("there are no steps")?.push(json!("awaited"));
                    Ok(body)
                })
            });
            call.patch.with(|patch| {
                patch.add_fn(put(&["spec", "steps"], json!(["plain"])));
                patch.add_fn(later);
            });
            done()
        });
        let _operator = stage.run([make]).await;
        stage.create("obj", json!({})).await;
        let object = stage
            .until("obj", "written", |object| {
                object["spec"]["steps"].is_array()
            })
            .await;
        assert_eq!(object["spec"]["steps"], json!(["plain", "awaited"]));
    });
}

/// Returns a handler that sets `spec.put` to a number by a transformation.
fn putting() -> Declaration {
    on::create("make").does(|call| async move {
        call.patch
            .with(|patch| patch.add_fn(put(&["spec", "put"], json!(1))));
        done()
    })
}

/// Returns the rejected JSON patches.
fn refused(stage: &Stage) -> Vec<Call> {
    let mut calls = stage.writes();
    calls.retain(|call| !call.is_accepted());
    calls
}

/// Asserts that the rejections are errors with this message and that the same patch is sent each
/// time.
#[track_caller]
fn assert_refused(stage: &Stage, message: &str) {
    let records = stage.log.of("obj").into_iter();
    let errors = records.filter(|record| record.level == tracing::Level::ERROR);
    let errors: Vec<_> = errors.map(|record| record.message).collect();
    assert!(!errors.is_empty());
    assert!(
        errors.iter().all(|text| text.contains(message)),
        "{errors:#?}"
    );
    assert!(!stage.log.has("obj", "conflicts with newer changes"));
    assert_eq!(stage.journal.ids(), ["make"]);
    for call in refused(stage) {
        let operations = call.body.as_array().unwrap();
        let changes: Vec<_> = operations.iter().filter(|op| op["op"] != "test").collect();
        let add = json!({"op": "add", "path": "/spec/put", "value": 1});
        assert_eq!(changes, [&add]);
    }
}

/// Changes the schema of the test's CRD so that `spec.put` is a string.
async fn constrain(stage: &Stage) {
    let group = stage.api.group();
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.{group}");
    let mut crd = stage.api.found(&path).await.json;
    let schema = &mut crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    schema["properties"]["spec"]["properties"]["put"] = json!({"type": "string"});
    stage.api.replaced(&path, &crd).await;
    let probe = stage.thing("probe", json!({"put": 1}));
    let path = format!("{}?dryRun=All", stage.path(""));
    kopf_tests::eventually("the schema to be in force", async || {
        let response = stage.api.create(&path, &probe).await;
        (response.code == 422).then_some(())
    })
    .await;
}

#[test]
fn transformation_denied_by_a_webhook_is_an_error() {
    for code in [400, 403, 422] {
        everywhere(async |stage| {
            stage.use_real_time();
            let webhook = Webhook::start(move |call| {
                if call.request()["object"]["spec"]["put"].is_null() {
                    return Verdict::allow();
                }
                let status = json!({"message": "this field is reserved", "code": code});
                Verdict::deny("").with("status", status)
            })
            .await;
            let rules = [rule(&stage.api.group(), "v1", &["things"], &["UPDATE"])];
            let hook = webhook.hook(&stage.api, "deny.example.com", "/deny", &rules);
            webhook.validate_with(&stage.api, "deny", &[hook]).await;
            let _operator = stage.run([putting(), on::delete("unmake")]).await;
            stage.create("obj", json!({"field": 1})).await;
            stage
                .wait_for("two rejections", || refused(stage).len() >= 2)
                .await;
            assert_refused(stage, "this field is reserved");
            stage.delete_and_wait("obj").await;
            assert_eq!(stage.journal.ids(), ["make", "unmake"]);
        });
    }
}

#[test]
fn transformation_rejected_by_the_schema_is_an_error() {
    everywhere(async |stage| {
        constrain(stage).await;
        let _operator = stage.run([putting(), on::delete("unmake")]).await;
        stage.create("obj", json!({"field": 1})).await;
        stage
            .wait_for("two rejections", || refused(stage).len() >= 2)
            .await;
        assert_refused(stage, "spec.put");
        stage.delete_and_wait("obj").await;
        assert_eq!(stage.journal.ids(), ["make", "unmake"]);
    });
}

#[test]
fn frontend_can_replace_its_part_of_the_patch() {
    everywhere(async |stage| {
        let part = |key: &str| {
            let mut patch = Patch::default();
            patch.set(&FieldPath::parse(&format!("status.{key}")), json!(true));
            patch
        };
        let first = on::create("first").does(move |call| async move {
            let cell = call.patch.cell(|| Arc::new("kept".to_owned()));
            assert!(cell.is::<String>());
            call.patch.replace(part("one"));
            gives(json!(1))
        });
        let second = on::create("second").does(move |call| async move {
            let cell = call.patch.cell(|| Arc::new(()));
            assert_eq!(cell.downcast_ref::<String>().unwrap(), "kept");
            call.patch.replace(part("two"));
            gives(json!(2))
        });
        let setup = stage.operator([first, second]).lifecycle(AllAtOnce);
        let _operator = setup.start().await;
        stage.create("obj", json!({})).await;
        let object = stage
            .until("obj", "written", |object| {
                is_handled(object) && object["status"]["two"] == true
            })
            .await;
        assert_eq!(
            object["status"],
            json!({"first": 1, "second": 2, "two": true})
        );
    });
}

#[test]
fn rejected_transformation_is_repeated_with_backoff() {
    sandboxed(async |stage| {
        constrain(stage).await;
        let _operator = stage.run([putting(), on::delete("unmake")]).await;
        stage.create("obj", json!({"field": 1})).await;
        assert_rarer(&stage.seconds_of_writes(600).await);
        assert_refused(stage, "spec.put");
        // Foreign changes do not extend the patch.
        for value in 1..=5 {
            let labels = json!({"metadata": {"labels": {"value": value.to_string()}}});
            stage.merge("obj", labels).await;
            stage.sleep(10.0).await;
        }
        assert_refused(stage, "spec.put");
        stage.delete_and_wait("obj").await;
    });
}
