//! The schema of a CRD: validation, pruning, defaults.

use kopf_tests::{Api, eventually};
use serde_json::{Value, json};

/// Returns a schema with one property of each type; none is required.
fn rich() -> Value {
    json!({
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 10},
            "ratio": {"type": "number", "multipleOf": 0.5},
            "on": {"type": "boolean"},
            "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
            "color": {"type": "string", "enum": ["red", "blue"]},
            "port": {"x-kubernetes-int-or-string": true},
            "note": {"type": "string", "nullable": true},
            "list": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}},
            "set": {
                "type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"},
            },
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "inner": {
                "type": "object",
                "required": ["key"],
                "properties": {"key": {"type": "string"}},
            },
        },
    })
}

#[tokio::test]
async fn each_rule_is_enforced_with_its_reason_and_field() {
    let api = Api::start().await;
    let crd = api.crd().spec_schema(rich()).create().await;
    for (spec, reason, field) in [
        (json!({"size": "x"}), "FieldValueTypeInvalid", "spec.size"),
        (json!({"size": 1.5}), "FieldValueTypeInvalid", "spec.size"),
        (json!({"size": 0}), "FieldValueInvalid", "spec.size"),
        (json!({"size": 11}), "FieldValueInvalid", "spec.size"),
        (json!({"ratio": "x"}), "FieldValueTypeInvalid", "spec.ratio"),
        (json!({"ratio": 0.7}), "FieldValueInvalid", "spec.ratio"),
        (json!({"on": "yes"}), "FieldValueTypeInvalid", "spec.on"),
        (json!({"name": "a"}), "FieldValueInvalid", "spec.name"),
        (json!({"name": "UP"}), "FieldValueInvalid", "spec.name"),
        (json!({"name": "abcdef"}), "FieldValueTooLong", "spec.name"),
        (
            json!({"color": "green"}),
            "FieldValueNotSupported",
            "spec.color",
        ),
        (json!({"port": []}), "FieldValueTypeInvalid", "spec.port"),
        (json!({"note": 5}), "FieldValueTypeInvalid", "spec.note"),
        (json!({"list": []}), "FieldValueInvalid", "spec.list"),
        (
            json!({"list": ["a", "b", "c"]}),
            "FieldValueTooMany",
            "spec.list",
        ),
        (
            json!({"list": [1]}),
            "FieldValueTypeInvalid",
            "spec.list[0]",
        ),
        (
            json!({"set": ["a", "a"]}),
            "FieldValueDuplicate",
            "spec.set[1]",
        ),
        (
            json!({"counts": {"a": "x"}}),
            "FieldValueTypeInvalid",
            "spec.counts.a",
        ),
        (json!({"inner": {}}), "FieldValueRequired", "spec.inner.key"),
        (json!("text"), "FieldValueTypeInvalid", "spec"),
    ] {
        let refused = api
            .create(&crd.path(), &crd.object("bad", spec.clone()))
            .await;
        let refused = refused.expect_failure(422, "Invalid");
        assert!(
            refused.causes().contains(&(reason, field)),
            "{spec}: {}",
            refused.text()
        );
        assert_eq!(refused.details()["name"], "bad");
        assert_eq!(refused.details()["group"], crd.group());
        assert_eq!(refused.details()["kind"], "Widget");
    }
    assert!(api.get(&crd.path()).await.ok().items().is_empty());
}

#[tokio::test]
async fn all_errors_of_an_object_are_reported() {
    let api = Api::start().await;
    let crd = api.crd().spec_schema(rich()).create().await;
    let spec = json!({"size": 0, "color": "green", "on": 1});
    let refused = api.create(&crd.path(), &crd.object("bad", spec)).await;
    let refused = refused.expect_failure(422, "Invalid");
    let causes = refused.causes();
    for cause in [
        ("FieldValueInvalid", "spec.size"),
        ("FieldValueNotSupported", "spec.color"),
        ("FieldValueTypeInvalid", "spec.on"),
    ] {
        assert!(causes.contains(&cause), "{causes:?}");
    }
    let start = format!("Widget.{} \"bad\" is invalid: [", crd.group());
    assert!(
        refused.message().starts_with(&start),
        "{}",
        refused.message()
    );
}

#[tokio::test]
async fn valid_objects_are_stored_unchanged() {
    let api = Api::start().await;
    let crd = api.crd().spec_schema(rich()).create().await;
    let spec = json!({
        "size": 5,
        "ratio": 1.5,
        "on": false,
        "name": "abc",
        "color": "red",
        "port": "http",
        "note": null,
        "list": ["a"],
        "set": ["a", "b"],
        "counts": {"any": 1, "key": 2},
        "inner": {"key": ""},
    });
    let created = crd.created("a", spec.clone()).await;
    assert_eq!(created.json["spec"], spec);
    let port = crd.merged("a", &json!({"spec": {"port": 80}})).await;
    assert_eq!(port.at("/spec/port"), 80);
}

#[tokio::test]
async fn updates_and_patches_are_validated_as_well() {
    let api = Api::start().await;
    let crd = api.crd().spec_schema(rich()).create().await;
    let created = api
        .create(&crd.path(), &crd.object("a", json!({"size": 1})))
        .await
        .ok();
    let mut object = created.json.clone();
    object["spec"]["size"] = json!(100);
    let put = api
        .put(&crd.path_of("a"), &object)
        .await
        .expect_failure(422, "Invalid");
    assert_eq!(put.causes(), [("FieldValueInvalid", "spec.size")]);
    let patch = api
        .merge(&crd.path_of("a"), &json!({"spec": {"size": "x"}}))
        .await;
    patch.expect_failure(422, "Invalid");
    let still = api.get(&crd.path_of("a")).await.ok();
    assert_eq!(still.resource_version(), created.resource_version());
}

#[tokio::test]
async fn unknown_fields_are_pruned_where_not_preserved() {
    let api = Api::start().await;
    let schema = json!({
        "type": "object",
        "properties": {
            "known": {"type": "string"},
            "free": {
                "type": "object",
                "x-kubernetes-preserve-unknown-fields": true,
                "properties": {
                    "strict": {"type": "object", "properties": {"a": {"type": "string"}}},
                },
            },
            "list": {
                "type": "array",
                "items": {"type": "object", "properties": {"a": {"type": "string"}}},
            },
        },
    });
    let crd = api.crd().spec_schema(schema).create().await;
    let spec = json!({
        "known": "k",
        "unknown": "u",
        "free": {"any": {"thing": 1}, "strict": {"a": "a", "b": "b"}},
        "list": [{"a": "a", "b": "b"}],
    });
    let mut object = crd.object("a", spec);
    object["unknown"] = json!("at the root");
    let created = api.created(&crd.path(), &object).await;
    assert_eq!(
        created.json["spec"],
        json!({
            "known": "k",
            "free": {"any": {"thing": 1}, "strict": {"a": "a"}},
            "list": [{"a": "a"}],
        })
    );
    assert_eq!(created.json["unknown"], Value::Null);
    let stored = api.get(&crd.path_of("a")).await.ok();
    assert_eq!(stored.json["spec"], created.json["spec"]);
    let patched = api
        .merge(&crd.path_of("a"), &json!({"spec": {"unknown": "again"}}))
        .await
        .ok();
    assert_eq!(
        patched.resource_version(),
        created.resource_version(),
        "nothing is left of it"
    );
}

#[tokio::test]
async fn defaults_are_filled_in() {
    let api = Api::start().await;
    let schema = json!({
        "type": "object",
        "default": {},
        "properties": {
            "mode": {"type": "string", "default": "auto"},
            "note": {"type": "string", "default": "none", "nullable": true},
            "inner": {
                "type": "object",
                "properties": {"depth": {"type": "integer", "default": 3}},
            },
            "list": {
                "type": "array",
                "items": {"type": "object", "properties": {
                    "name": {"type": "string"}, "weight": {"type": "integer", "default": 1},
                }},
            },
        },
    });
    let crd = api.crd().spec_schema(schema).create().await;
    let create = async |name: &str, spec: Value| {
        let created = crd.created(name, spec).await;
        created.json["spec"].clone()
    };
    let nothing = create("nothing", Value::Null).await;
    assert_eq!(nothing, json!({"mode": "auto", "note": "none"}));
    let given = json!({"mode": "manual", "note": "given", "inner": {"depth": 1}});
    assert_eq!(create("given", given.clone()).await, given);
    let inside = create(
        "inside",
        json!({"inner": {}, "list": [{"name": "a"}, {"weight": 5}]}),
    )
    .await;
    assert_eq!(inside["inner"], json!({"depth": 3}));
    assert_eq!(
        inside["list"],
        json!([{"name": "a", "weight": 1}, {"weight": 5}])
    );
    // A null is kept where it is allowed, and dropped otherwise.
    let null = create("null", json!({"mode": null, "note": null})).await;
    assert_eq!(null, json!({"mode": "auto", "note": null}));
}

#[tokio::test]
async fn changed_schema_applies_to_old_objects() {
    let api = Api::start().await;
    let size = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let crd = api.crd().spec_schema(size).create().await;
    let created = api
        .create(&crd.path(), &crd.object("a", json!({"size": 5})))
        .await
        .ok();
    let mut definition = api.get(&crd.definition_path()).await.ok().json;
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({
        "type": "object",
        "properties": {
            "size": {"type": "integer", "maximum": 9},
            "mode": {"type": "string", "default": "auto"},
        },
    });
    api.replaced(&crd.definition_path(), &definition).await;

    let read = eventually("the new schema to be in force", async || {
        let read = crd.found("a").await;
        (read.at("/spec/mode") == "auto").then_some(read)
    })
    .await;
    assert_eq!(
        read.resource_version(),
        created.resource_version(),
        "read, not written"
    );
    assert_eq!(read.generation(), 1);
    // A real server responds with 429 until its cache is rebuilt.
    let listed = eventually("the objects to be listed again", async || {
        let listed = api.get(&crd.path()).await;
        (listed.code != 429).then(|| listed.ok())
    })
    .await;
    assert_eq!(listed.items()[0]["spec"]["mode"], "auto");
    let refused = api
        .create(&crd.path(), &crd.object("b", json!({"size": 10})))
        .await;
    refused.expect_failure(422, "Invalid");
}

#[tokio::test]
async fn unchanged_values_may_violate_new_rules() {
    let api = Api::start().await;
    let size = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
    let crd = api.crd().spec_schema(size).create().await;
    api.create(&crd.path(), &crd.object("a", json!({"size": 5})))
        .await
        .ok();
    let mut definition = api.get(&crd.definition_path()).await.ok().json;
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        ["size"]["maximum"] = json!(3);
    api.replaced(&crd.definition_path(), &definition).await;
    eventually("the new schema to be in force", async || {
        let probe = crd.object("probe", json!({"size": 5}));
        let response = api
            .create(&format!("{}?dryRun=All", crd.path()), &probe)
            .await;
        (response.code == 422).then_some(())
    })
    .await;
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    crd.merged("a", &labels).await;
    let refused = api
        .merge(&crd.path_of("a"), &json!({"spec": {"size": 6}}))
        .await;
    refused.expect_failure(422, "Invalid");
}
