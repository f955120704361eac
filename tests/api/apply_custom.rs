//! Server-side apply of custom resources: list and map types of their schemas.

use kopf_tests::{Api, Crd};
use serde_json::{Value, json};

use crate::apply::{apply, force, owned};

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "replicas": {"type": "integer"},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "map": {
            "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {
                "name": {"type": "string"}, "value": {"type": "integer"},
            }},
        },
        "atomic": {"type": "array", "items": {"type": "string"}},
        "granular": {"type": "object", "additionalProperties": {"type": "string"}},
        "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
            "a": {"type": "string"}, "b": {"type": "string"},
        }},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "embedded": {
            "type": "object", "x-kubernetes-embedded-resource": true,
            "x-kubernetes-preserve-unknown-fields": true,
        },
    }})
}

async fn widgets(api: &Api) -> Crd<'_> {
    api.crd().spec_schema(schema()).with_status().create().await
}

#[tokio::test]
async fn schema_types_determine_field_ownership() {
    let api = Api::start().await;
    let crd = widgets(&api).await;
    let spec = json!({
        "set": ["a"], "map": [{"name": "x", "value": 1}], "atomic": ["1"], "granular": {"g": "1"},
        "whole": {"a": "1"}, "open": {"o": {"p": [1], "q": {}}},
        "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "e", "finalizers": ["f/g"]}},
    });
    let path = crd.path_of("one");
    let created = apply(&api, &path, "me", &crd.object("one", spec))
        .await
        .expect_code(201);
    assert_eq!(
        owned(&created, "me", "Apply"),
        json!({"f:spec": {
            "f:set": {"v:\"a\"": {}},
            "f:map": {"k:{\"name\":\"x\"}": {".": {}, "f:name": {}, "f:value": {}}},
            "f:atomic": {},
            "f:granular": {"f:g": {}},
            "f:whole": {},
            "f:open": {"f:o": {".": {}, "f:p": {}, "f:q": {}}},
            "f:embedded": {
                "f:apiVersion": {}, "f:kind": {},
                "f:metadata": {"f:name": {}, "f:finalizers": {"v:\"f/g\"": {}}},
            },
        }})
    );
}

#[tokio::test]
async fn sets_and_keyed_lists_are_merged() {
    let api = Api::start().await;
    let crd = widgets(&api).await;
    let path = crd.path_of("one");
    let config = |spec| crd.object("one", spec);
    let mine = json!({"set": ["a", "b"], "map": [{"name": "x", "value": 1}, {"name": "y"}]});
    apply(&api, &path, "me", &config(mine))
        .await
        .expect_code(201);
    let yours = json!({"set": ["c", "a"], "map": [{"name": "z"}, {"name": "x", "value": 1}]});
    let merged = apply(&api, &path, "you", &config(yours)).await.ok();
    assert_eq!(merged.at("/spec/set"), &json!(["c", "a", "b"]));
    assert_eq!(
        merged.at("/spec/map"),
        &json!([{"name": "z"}, {"name": "x", "value": 1}, {"name": "y"}])
    );
    let less = apply(&api, &path, "me", &config(json!({"set": ["b"]})))
        .await
        .ok();
    assert_eq!(less.at("/spec/set"), &json!(["c", "a", "b"]));
    assert_eq!(
        less.at("/spec/map"),
        &json!([{"name": "z"}, {"name": "x", "value": 1}])
    );
}

#[tokio::test]
async fn atomic_parts_have_one_owner() {
    let api = Api::start().await;
    let crd = widgets(&api).await;
    let path = crd.path_of("one");
    let config = |spec| crd.object("one", spec);
    let mine = json!({"atomic": ["1"], "whole": {"a": "1"}});
    apply(&api, &path, "me", &config(mine))
        .await
        .expect_code(201);
    let yours = json!({"atomic": ["2"], "whole": {"b": "1"}});
    let refused = apply(&api, &path, "you", &config(yours.clone())).await;
    let refused = refused.expect_failure(409, "Conflict");
    assert_eq!(
        refused.causes(),
        [
            ("FieldManagerConflict", ".spec.atomic"),
            ("FieldManagerConflict", ".spec.whole")
        ]
    );
    let forced = force(&api, &path, "you", &config(yours.clone())).await.ok();
    assert_eq!(forced.json["spec"], yours);
}

#[tokio::test]
async fn unknown_and_ambiguous_fields_are_rejected() {
    let api = Api::start().await;
    let crd = widgets(&api).await;
    let path = crd.path_of("one");
    for (spec, problem) in [
        (
            json!({"unknown": 1}),
            ".spec.unknown: field not declared in schema",
        ),
        (
            json!({"map": [{"name": "x"}, {"name": "x"}]}),
            ".spec.map: duplicate entries for key [name=\"x\"]",
        ),
        (
            json!({"set": ["x", "x"]}),
            ".spec.set: duplicate entries for key [=\"x\"]",
        ),
        (
            json!({"replicas": "x"}),
            ".spec.replicas: expected numeric (int or float), got string",
        ),
    ] {
        let refused = apply(&api, &path, "me", &crd.object("one", spec)).await;
        let refused = refused.expect_code(500);
        assert!(
            refused.message().ends_with(problem),
            "{}",
            refused.message()
        );
    }
}

#[tokio::test]
async fn subresources_have_their_own_managers() {
    let api = Api::start().await;
    let crd = api
        .crd()
        .schema(json!({"type": "object", "properties": {
            "spec": schema(),
            "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
        }}))
        .with_status()
        .create()
        .await;
    let path = crd.path_of("one");
    apply(
        &api,
        &path,
        "me",
        &crd.object("one", json!({"replicas": 1})),
    )
    .await
    .expect_code(201);
    let mut status = crd.object("one", json!({"replicas": 5}));
    status["status"] = json!({"phase": "Ready"});
    let applied = apply(&api, &format!("{path}/status"), "me", &status)
        .await
        .ok();
    assert_eq!(applied.at("/spec/replicas"), 1);
    assert_eq!(applied.at("/status/phase"), "Ready");
    let entries = applied.at("/metadata/managedFields").as_array().unwrap();
    let of_status = entries
        .iter()
        .find(|it| it["subresource"] == "status")
        .unwrap();
    assert_eq!(of_status["fieldsV1"], json!({"f:status": {"f:phase": {}}}));
    assert_eq!(entries.len(), 2);
}

#[tokio::test]
async fn lists_that_become_atomic_keep_their_owners() {
    let api = Api::start().await;
    let crd = widgets(&api).await;
    let path = crd.path_of("one");
    apply(&api, &path, "me", &crd.object("one", json!({"set": ["a"]})))
        .await
        .expect_code(201);
    let mut changed = api.get(&crd.definition_path()).await.json;
    let set = changed
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/set")
        .unwrap();
    set["x-kubernetes-list-type"] = json!("atomic");
    api.put(&crd.definition_path(), &changed).await.ok();
    let yours = crd.object("one", json!({"set": ["b"]}));
    let causes = kopf_tests::eventually("the schema to change", async || {
        let refused = apply(&api, &format!("{path}?dryRun=All"), "you", &yours).await;
        let causes: Vec<String> = refused
            .causes()
            .iter()
            .map(|(_, field)| (*field).to_owned())
            .collect();
        (!causes.is_empty()).then_some(causes)
    })
    .await;
    assert_eq!(causes, [".spec.set"]);
}
