//! Policies that change objects.

use kopf_tests::{Api, eventually, objects};
use serde_json::{Value, json};

use crate::policies::{constraints, create};

/// Creates a mutating policy and its binding.
async fn mutating(api: &Api, mutations: &[Value]) -> String {
    let spec = json!({
        "matchConstraints": constraints(api),
        "reinvocationPolicy": "Never",
        "mutations": mutations,
    });
    bound(api, spec).await
}

async fn bound(api: &Api, spec: Value) -> String {
    let name = api.unique("policy");
    let (plural, kind) = ("mutatingadmissionpolicies", "MutatingAdmissionPolicy");
    let created = create(api, plural, kind, &name, spec).await;
    created.expect_code(201);
    let (plural, kind) = (
        "mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicyBinding",
    );
    let created = create(api, plural, kind, &name, json!({"policyName": name})).await;
    created.expect_code(201);
    name
}

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

#[tokio::test]
async fn mutating_policies_change_objects() {
    let api = Api::start().await;
    let mutations = [
        apply(
            "Object{metadata: Object.metadata{labels: {'team': object.data.?team.orValue('none')}}}",
        ),
        patch(
            "[JSONPatch{op: 'test', path: '/data/a', value: 'other'}, JSONPatch{op: 'remove', path: '/data/a'}]",
        ),
        patch("[JSONPatch{op: 'add', path: '/data/time', value: duration('90s')}]"),
        patch(
            "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('extra'), value: object.metadata.labels.team}]",
        ),
    ];
    mutating(&api, &mutations).await;
    let maps = api.ns_path("configmaps");
    let created = eventually("the policy to be in force", async || {
        let object = objects::config_map("one", json!({"team": "x"}));
        let response = api.create(&format!("{maps}?dryRun=All"), &object).await;
        response.at("/data/extra").is_string().then_some(response)
    })
    .await;
    assert_eq!(created.at("/metadata/labels/team"), "x");
    let mut object = objects::config_map("one", json!({"a": "1"}));
    object["metadata"]["labels"] = json!({"own": "1"});
    let created = api.created(&maps, &object).await;
    assert_eq!(
        created.at("/metadata/labels"),
        &json!({"own": "1", "team": "none"})
    );
    assert_eq!(
        created.at("/data"),
        &json!({"a": "1", "extra": "none", "time": "90s"})
    );
}

#[tokio::test]
async fn failing_mutations_deny_requests() {
    for (mutation, problem) in [
        (
            apply("Object{foo: 'x'}"),
            "error applying patch: failed to convert patch object to typed object: .foo: field not declared in schema",
        ),
        (
            apply("Object{metadata: Object.wrong{labels: {'a': 'b'}}}"),
            "unexpected type name \"Object.wrong\", expected \"Object.metadata\", which matches field name path from root Object type",
        ),
        (patch("[JSONPatch{op: 'remove', path: '/data/absent'}]"), ""),
    ] {
        let api = Api::start().await;
        let name = mutating(&api, &[mutation]).await;
        let maps = format!("{}?dryRun=All", api.ns_path("configmaps"));
        let refused = eventually("the policy to be in force", async || {
            let object = objects::config_map("one", json!({"a": "x"}));
            let response = api.create(&maps, &object).await;
            (response.code != 201).then_some(response)
        })
        .await;
        let refused = refused.expect_failure(403, "Invalid");
        let prefix = format!("policy '{name}' with binding '{name}' denied request: ");
        let message = refused.message();
        assert!(
            message.starts_with(&prefix) && message.contains(problem),
            "{message}"
        );
    }
}

#[tokio::test]
async fn ignored_failures_keep_the_other_mutations() {
    let api = Api::start().await;
    let mutations = [
        apply("Object{metadata: Object.metadata{labels: {'first': '1'}}}"),
        apply("Object{metadata: Object.metadata{labels: {'failing': object.data.absent}}}"),
        apply("Object{metadata: Object.metadata{labels: {'last': object.metadata.labels.first}}}"),
    ];
    let spec = json!({
        "matchConstraints": constraints(&api), "reinvocationPolicy": "Never",
        "mutations": mutations, "failurePolicy": "Ignore",
    });
    bound(&api, spec).await;
    let maps = format!("{}?dryRun=All", api.ns_path("configmaps"));
    let created = eventually("the policy to be in force", async || {
        let object = objects::config_map("one", json!({"a": "x"}));
        let response = api.create(&maps, &object).await;
        response
            .at("/metadata/labels/last")
            .is_string()
            .then_some(response)
    })
    .await;
    let labels = json!({"first": "1", "last": "1"});
    assert_eq!(created.at("/metadata/labels"), &labels);
}
