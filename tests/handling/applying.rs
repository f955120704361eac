//! Server-side apply of children.

use kopf_engine::applying::{Applied, Effect, Error, FieldOwnership, apply_child};
use kopf_engine::invocation::Call;
use kopf_tests::PatchType;
use serde_json::{Value, json};

use crate::front::{arbitrary, done, gives, on};
use crate::stage::{Stage, everywhere};

fn config_map(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

async fn apply(call: &Call, manifest: Value) -> Result<Applied, Error> {
    let operator = &call.operator;
    apply_child(operator, call.body(), manifest, FieldOwnership::Respect).await
}

async fn config_map_of(stage: &Stage, name: &str) -> Value {
    let path = stage.api.ns_path(&format!("configmaps/{name}"));
    stage.api.found(&path).await.json
}

fn applications(stage: &Stage) -> usize {
    let calls = stage.recorder.calls();
    calls
        .iter()
        .filter(|call| call.content_type.contains("apply-patch"))
        .count()
}

#[test]
fn children_are_created_with_their_owners() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            let manifest = config_map("child", json!({"a": "1"}));
            match apply(&call, manifest).await {
                Ok(applied) => gives(applied.object["metadata"]["name"].clone()),
                Err(error) => arbitrary(&error.to_string()),
            }
        });
        let _operator = stage.run([make]).await;
        let parts = json!({"metadata": {"labels": {"team": "x"}}});
        let owner = stage.create_with("obj", parts).await;
        stage
            .until("obj", "made", |object| object["status"]["make"] == "child")
            .await;
        let child = config_map_of(stage, "child").await;
        assert_eq!(child["data"], json!({"a": "1"}));
        assert_eq!(child["metadata"]["labels"], json!({"team": "x"}));
        let reference = &child["metadata"]["ownerReferences"][0];
        assert_eq!(reference["uid"], owner["metadata"]["uid"]);
        assert_eq!(reference["controller"], true);
        let managers = child["metadata"]["managedFields"].as_array().unwrap();
        assert_eq!(managers[0]["manager"], "kopf");
        assert_eq!(managers[0]["operation"], "Apply");
    });
}

#[test]
fn children_are_written_only_if_something_changes() {
    everywhere(async |stage| {
        let make = || {
            async |call: Call| {
                let data = json!({"size": call.body().spec()["size"]});
                let applied = apply(&call, config_map("child", data)).await;
                match applied.map(|applied| applied.effect) {
                    Ok(effect) => gives(json!(format!("{} {effect:?}", call.body().spec()["n"]))),
                    Err(error) => arbitrary(&error.to_string()),
                }
            }
        };
        let create = on::create("make").does(move |call| make()(call));
        let update = create.also(on::update("make"));
        let _operator = stage.run([create, update]).await;
        stage.create("obj", json!({"size": "small", "n": 0})).await;
        let effect = async |n: u32, expected: Effect| {
            let expected = format!("{n} {expected:?}");
            let what = expected.clone();
            let is_so = move |object: &Value| object["status"]["make"] == expected.as_str();
            stage.until("obj", &what, is_so).await;
        };
        effect(0, Effect::Created).await;
        stage.merge("obj", json!({"spec": {"n": 1}})).await;
        effect(1, Effect::Unchanged).await;
        assert_eq!(applications(stage), 1);
        stage
            .merge("obj", json!({"spec": {"n": 2, "size": "big"}}))
            .await;
        effect(2, Effect::Changed).await;
        // Fields of other managers stay. Their changes of own fields are overwritten only with
        // force.
        let path = stage.api.ns_path("configmaps/child");
        stage
            .api
            .merged(&path, &json!({"data": {"theirs": "x"}}))
            .await;
        stage.merge("obj", json!({"spec": {"n": 3}})).await;
        effect(3, Effect::Unchanged).await;
        assert_eq!(applications(stage), 2);
        let child = config_map_of(stage, "child").await;
        assert_eq!(child["data"], json!({"size": "big", "theirs": "x"}));
    });
}

#[test]
fn conflicts_name_the_other_manager() {
    everywhere(async |stage| {
        let path = stage.api.ns_path("configmaps/child");
        let foreign = config_map("child", json!({"a": "theirs"}));
        let query = format!("{path}?fieldManager=another-manager");
        let applied = stage.api.patch(&query, PatchType::Apply, &foreign).await;
        applied.expect_code(201);
        let make = on::create("make").does(|call| async move {
            let manifest = || config_map("child", json!({"a": "ours"}));
            let refused = apply(&call, manifest()).await;
            let message = refused.map_or_else(|error| error.to_string(), |_| "none".to_owned());
            let ownership = FieldOwnership::TakeOver;
            let forced = apply_child(&call.operator, call.body(), manifest(), ownership).await;
            match forced {
                Ok(_) => gives(json!(message)),
                Err(error) => arbitrary(&error.to_string()),
            }
        });
        let _operator = stage.run([make]).await;
        stage.create("obj", json!({})).await;
        let object = stage
            .until("obj", "made", |object| object["status"]["make"].is_string())
            .await;
        let message = object["status"]["make"].as_str().unwrap();
        let namespace = stage.api.namespace();
        let expected = format!(
            "child ConfigMap/child in the namespace {namespace:?} is not applied: .data.a is managed by \"another-manager\""
        );
        assert!(message.starts_with(&expected), "{message}");
        assert!(message.contains("force"), "{message}");
        assert_eq!(config_map_of(stage, "child").await["data"]["a"], "ours");
    });
}

#[test]
fn changes_by_other_clients_are_detected() {
    everywhere(async |stage| {
        let make = on::event("make").does(|call| async move {
            let manifest = config_map("child", json!({"a": "ours"}));
            let ownership = FieldOwnership::TakeOver;
            let applied = apply_child(&call.operator, call.body(), manifest, ownership).await;
            match applied {
                Ok(_) => done(),
                Err(error) => arbitrary(&error.to_string()),
            }
        });
        let _operator = stage.run([make]).await;
        stage.create("obj", json!({})).await;
        stage
            .wait_for("the child", || applications(stage) == 1)
            .await;
        let path = stage.api.ns_path("configmaps/child");
        stage
            .api
            .merged(&path, &json!({"data": {"a": "theirs"}}))
            .await;
        stage.merge("obj", json!({"spec": {"n": 1}})).await;
        stage
            .wait_for("the second write", || applications(stage) == 2)
            .await;
        assert_eq!(config_map_of(stage, "child").await["data"]["a"], "ours");
    });
}

#[test]
fn invalid_children_are_errors() {
    everywhere(async |stage| {
        let make = on::create("make").does(|call| async move {
            let mut messages = Vec::new();
            for manifest in [
                json!({"kind": "ConfigMap"}),
                json!({"apiVersion": "nowhere.example/v1", "kind": "Nothing", "metadata": {"name": "x"}}),
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}),
                json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"wrong": 1}}),
            ] {
                let applied = apply(&call, manifest).await;
                messages.push(applied.map_or_else(|error| error.to_string(), |_| String::new()));
            }
            gives(json!(messages))
        });
        let _operator = stage.run([make]).await;
        stage.create("obj", json!({})).await;
        let object = stage
            .until("obj", "made", |object| object["status"]["make"].is_array())
            .await;
        let begins = [
            "child has no apiVersion",
            "child Nothing/x is not applied: the server does not serve Nothing.v1.nowhere.example",
            "child Namespace/x is cluster-scoped, and its owner is in the namespace",
            "child ConfigMap/obj in the namespace",
        ];
        for (position, begin) in begins.into_iter().enumerate() {
            let message = object["status"]["make"][position].as_str().unwrap();
            assert!(message.starts_with(begin), "{message}");
        }
    });
}
