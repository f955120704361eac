//! Admission policies: expressions that accept, reject and change objects without webhooks.

use kopf_tests::{Api, ApiResponse, eventually, objects};
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// Returns constraints that match the ConfigMaps of the test's namespace.
fn constraints(api: &Api) -> Value {
    json!({
        "resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
            "resources": ["configmaps"],
        }],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": api.namespace()}},
    })
}

async fn create(api: &Api, plural: &str, kind: &str, name: &str, spec: Value) -> ApiResponse {
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name}, "spec": spec,
    });
    let path = format!("{GROUP}/{plural}");
    let created = api.create(&path, &object).await;
    api.delete_at_end(format!("{path}/{name}"));
    created
}

/// Creates a validating policy and a binding, and waits until they are in force: the policy rejects
/// objects with the key `probe`.
async fn validating(api: &Api, spec: Value, binding: Value) {
    let name = api.unique("policy");
    let mut spec = spec;
    spec["matchConstraints"] = constraints(api);
    let probe = json!({"expression": "!has(object.data) || !('probe' in object.data)"});
    spec["validations"].as_array_mut().unwrap().insert(0, probe);
    create(
        api,
        "validatingadmissionpolicies",
        "ValidatingAdmissionPolicy",
        &name,
        spec,
    )
    .await
    .expect_code(201);
    let mut binding = binding;
    binding["policyName"] = json!(name);
    let (plural, kind) = (
        "validatingadmissionpolicybindings",
        "ValidatingAdmissionPolicyBinding",
    );
    create(api, plural, kind, &name, binding)
        .await
        .expect_code(201);
    eventually("the policy to be in force", async || {
        let probe = objects::config_map("probe", json!({"probe": "1"}));
        let path = format!("{}?dryRun=All", api.ns_path("configmaps"));
        let response = api.create(&path, &probe).await;
        (response.code == 422 || !response.warnings().is_empty()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn validating_policies_deny_requests() {
    let api = Api::start().await;
    let spec = json!({
        "variables": [{"name": "good", "expression": "'good'"}],
        "matchConditions": [{"name": "skip", "expression": "!object.metadata.name.startsWith('skip')"}],
        "validations": [
            {"expression": "object.data.?x.orValue('') != 'bad'"},
            {
                "expression": "!has(object.data.y) || object.data.y == variables.good",
                "message": "y must be good", "reason": "Forbidden",
            },
            {
                "expression": "!has(object.data.z) || int(object.data.z) < 5",
                "messageExpression": "'z is ' + object.data.z",
            },
        ],
    });
    validating(&api, spec, json!({"validationActions": ["Deny"]})).await;
    let maps = api.ns_path("configmaps");
    let name = api.unique("policy");
    for (data, code, message) in [
        (
            json!({"x": "bad"}),
            422,
            "failed expression: object.data.?x.orValue('') != 'bad'",
        ),
        (json!({"y": "no"}), 403, "y must be good"),
        (json!({"z": "7"}), 422, "z is 7"),
    ] {
        let refused = api.create(&maps, &objects::config_map("one", data)).await;
        let refused = refused.expect_code(code);
        let text = format!(
            "configmaps \"one\" is forbidden: ValidatingAdmissionPolicy '{name}' with binding '{name}' denied request: {message}"
        );
        assert_eq!(refused.message(), text);
    }
    let good = objects::config_map("good", json!({"x": "1", "y": "good", "z": "1"}));
    api.created(&maps, &good).await;
    api.merge(&format!("{maps}/good"), &json!({"data": {"x": "bad"}}))
        .await
        .expect_failure(422, "Invalid");
    let skipped = objects::config_map("skipped", json!({"x": "bad"}));
    api.created(&maps, &skipped).await;
}

#[tokio::test]
async fn validating_policies_can_warn() {
    let api = Api::start().await;
    let spec = json!({"validations": [{"expression": "object.data.x == '1'"}]});
    validating(&api, spec, json!({"validationActions": ["Warn"]})).await;
    let created = api
        .created(
            &api.ns_path("configmaps"),
            &objects::config_map("one", json!({"x": "2"})),
        )
        .await;
    let name = api.unique("policy");
    assert_eq!(
        created.warnings(),
        [format!(
            "Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{name}': failed expression: object.data.x == '1'"
        )]
    );
}

#[tokio::test]
async fn failing_expressions_follow_the_failure_policy() {
    let api = Api::start().await;
    let spec = json!({
        "failurePolicy": "Fail",
        "validations": [{"expression": "object.data.nope == '1'"}],
    });
    validating(&api, spec, json!({"validationActions": ["Deny"]})).await;
    let refused = api
        .create(
            &api.ns_path("configmaps"),
            &objects::config_map("one", json!({"a": "1"})),
        )
        .await
        .expect_failure(422, "Invalid");
    let end = "expression 'object.data.nope == '1'' resulted in error: no such key: nope";
    assert!(refused.message().ends_with(end), "{}", refused.message());
}

#[tokio::test]
async fn policies_have_parameters() {
    let api = Api::start().await;
    let schema = json!({"type": "object", "properties": {"max": {"type": "integer"}}});
    let crd = api.crd().spec_schema(schema).create().await;
    let limits = crd.object("limits", json!({"max": 5}));
    api.created(&crd.path(), &limits).await;
    let spec = json!({
        "paramKind": {"apiVersion": crd.api_version(), "kind": "Widget"},
        "validations": [{
            "expression": "!has(object.data.n) || int(object.data.n) <= params.spec.max",
            "messageExpression": "'at most ' + string(params.spec.max) + ' in ' + namespaceObject.metadata.name",
        }],
    });
    let binding = json!({
        "validationActions": ["Deny"],
        "paramRef": {
            "name": "limits", "namespace": api.namespace(), "parameterNotFoundAction": "Deny",
        },
    });
    validating(&api, spec, binding).await;
    let maps = api.ns_path("configmaps");
    // A real server finds new parameters with a delay.
    let end = format!("at most 5 in {}", api.namespace());
    eventually("the parameters to be found", async || {
        let object = objects::config_map("one", json!({"n": "9"}));
        let refused = api.create(&maps, &object).await;
        let refused = refused.expect_failure(422, "Invalid");
        refused.message().ends_with(&end).then_some(())
    })
    .await;
    let allowed = objects::config_map("one", json!({"n": "4"}));
    api.created(&maps, &allowed).await;
    api.delete(&crd.path_of("limits")).await.ok();
    eventually("the parameters to be deleted", async || {
        let object = objects::config_map("two", json!({"n": "4"}));
        let response = api.create(&format!("{maps}?dryRun=All"), &object).await;
        (response.code == 422).then_some(())
    })
    .await;
}

#[tokio::test]
async fn mutating_policies_change_objects() {
    let api = Api::start().await;
    let name = api.unique("policy");
    let apply =
        "Object{metadata: Object.metadata{labels: {'team': object.data.?team.orValue('none')}}}";
    let patch = "[JSONPatch{op: 'add', path: '/data/' + jsonpatch.escapeKey('extra'), value: '1'}]";
    let spec = json!({
        "matchConstraints": constraints(&api),
        "reinvocationPolicy": "Never",
        "mutations": [
            {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": apply}},
            {"patchType": "JSONPatch", "jsonPatch": {"expression": patch}},
        ],
    });
    create(
        &api,
        "mutatingadmissionpolicies",
        "MutatingAdmissionPolicy",
        &name,
        spec,
    )
    .await
    .expect_code(201);
    let binding = json!({"policyName": name});
    let (plural, kind) = (
        "mutatingadmissionpolicybindings",
        "MutatingAdmissionPolicyBinding",
    );
    create(&api, plural, kind, &name, binding)
        .await
        .expect_code(201);
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
    assert_eq!(created.json["data"], json!({"a": "1", "extra": "1"}));
}

#[tokio::test]
async fn invalid_policies_are_rejected() {
    let api = Api::start().await;
    let name = api.unique("policy");
    for (validations, field) in [
        (json!([]), "spec.validations"),
        (
            json!([{"expression": "a =="}]),
            "spec.validations[0].expression",
        ),
        (
            json!([{"expression": "foo == 1"}]),
            "spec.validations[0].expression",
        ),
        (
            json!([{"expression": ""}]),
            "spec.validations[0].expression",
        ),
    ] {
        let spec = json!({"matchConstraints": constraints(&api), "validations": validations});
        let (plural, kind) = ("validatingadmissionpolicies", "ValidatingAdmissionPolicy");
        let refused = create(&api, plural, kind, &name, spec).await;
        let refused = refused.expect_failure(422, "Invalid");
        assert_eq!(refused.causes()[0].1, field);
    }
    for actions in [json!([]), json!(["Nope"]), json!(["Deny", "Warn"])] {
        let spec = json!({"policyName": "x", "validationActions": actions});
        let (plural, kind) = (
            "validatingadmissionpolicybindings",
            "ValidatingAdmissionPolicyBinding",
        );
        let refused = create(&api, plural, kind, &name, spec).await;
        refused.expect_failure(422, "Invalid");
    }
}
