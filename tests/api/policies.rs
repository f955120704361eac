//! Admission policies: expressions that accept, reject and change objects without webhooks.

use kopf_tests::{Api, ApiResponse, eventually, objects};
use serde_json::{Value, json};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

/// Returns constraints that match the ConfigMaps of the test's namespace.
pub(crate) fn constraints(api: &Api) -> Value {
    json!({
        "resourceRules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
            "resources": ["configmaps"],
        }],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": api.namespace()}},
    })
}

pub(crate) async fn create(
    api: &Api,
    plural: &str,
    kind: &str,
    name: &str,
    spec: Value,
) -> ApiResponse {
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
pub(crate) async fn validating(api: &Api, spec: Value, binding: Value) {
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

/// Sends a policy, with changed fields of a valid spec, and returns its errors.
async fn policy_errors(api: &Api, plural: &str, kind: &str, changes: &Value) -> Vec<String> {
    let mut spec = match plural {
        "validatingadmissionpolicies" => json!({
            "matchConstraints": constraints(api), "validations": [{"expression": "true"}],
        }),
        "mutatingadmissionpolicies" => json!({
            "matchConstraints": constraints(api), "reinvocationPolicy": "Never", "mutations": [{
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": "Object{}"},
            }],
        }),
        _ => json!({"policyName": "x", "validationActions": ["Deny"]}),
    };
    for (field, value) in changes.as_object().unwrap() {
        spec[field] = value.clone();
    }
    let object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": api.unique("policy")}, "spec": spec,
    });
    let path = format!("{GROUP}/{plural}?dryRun=All");
    let response = api.create(&path, &object).await;
    let causes = response.json["details"]["causes"].as_array();
    let shown = causes.into_iter().flatten().map(|cause| {
        let (field, message) = (cause["field"].as_str(), cause["message"].as_str());
        let message = message.unwrap_or_default().lines().next();
        format!(
            "{}: {}",
            field.unwrap_or_default(),
            message.unwrap_or_default()
        )
    });
    shown.collect()
}

#[tokio::test]
#[rustfmt::skip]
async fn errors_of_policies_are_those_of_a_real_server() {
    let api = Api::start().await;
    let rule = |expression: &str| json!({"validations": [{"expression": expression}]});
    for (changes, expected) in [
        (json!({"failurePolicy": "X"}), r#"spec.failurePolicy: Unsupported value: "X": supported values: "Fail", "Ignore""#),
        (json!({"validations": [{"expression": "true", "reason": "X"}]}), r#"spec.validations[0].reason: Unsupported value: "X": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge""#),
        (json!({"validations": [{"expression": "true", "message": "a\nb"}]}), r#"spec.validations[0].message: Invalid value: "a\nb": must not contain line breaks"#),
        (json!({"validations": [{"expression": "true", "messageExpression": "1"}]}), r#"spec.validations[0].messageExpression: Invalid value: "1": must evaluate to string but got int"#),
        (json!({"variables": [{"name": "a-b", "expression": "1"}]}), r#"spec.variables[0].name: Invalid value: "a-b": must be a valid CEL identifier"#),
        (json!({"variables": [{"name": "", "expression": "1"}]}), "spec.variables[0].name: Required value: name is not specified"),
        (json!({"variables": [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]}), r#"spec.variables[0].expression: Invalid value: "variables.b": compilation failed: ERROR: <input>:1:10: undefined field 'b'"#),
        (rule("variables.a == 1"), r#"spec.validations[0].expression: Invalid value: "variables.a == 1": compilation failed: ERROR: <input>:1:1: undeclared reference to 'variables' (in container '')"#),
        (rule("params.x == 1"), r#"spec.validations[0].expression: Invalid value: "params.x == 1": compilation failed: ERROR: <input>:1:1: undeclared reference to 'params' (in container '')"#),
        (rule("request.zz == 1"), r#"spec.validations[0].expression: Invalid value: "request.zz == 1": compilation failed: ERROR: <input>:1:8: undefined field 'zz'"#),
        (rule("object.nofunc()"), r#"spec.validations[0].expression: Invalid value: "object.nofunc()": compilation failed: ERROR: <input>:1:14: undeclared reference to 'nofunc' (in container '')"#),
        (rule("1"), r#"spec.validations[0].expression: Invalid value: "1": must evaluate to bool but got int"#),
        (json!({"matchConditions": [{"name": "a", "expression": "object.a"}]}), r#"spec.matchConditions[0].expression: Invalid value: "object.a": must evaluate to bool but got dyn"#),
        (json!({"matchConditions": [{"name": "a", "expression": "1"}]}), r#"spec.matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int"#),
        (json!({"auditAnnotations": [{"key": "a", "valueExpression": "1"}]}), r#"spec.auditAnnotations[0].valueExpression: Invalid value: "1": must evaluate to one of [string null_type] but got int"#),
        (json!({"paramKind": {"apiVersion": "v1"}}), "spec.paramKind.kind: Required value"),
        (json!({"matchConstraints": {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["X"], "resources": ["pods"]}]}}), r#"spec.matchConstraints.resourceRules[0].operations[0]: Unsupported value: "X": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE""#),
    ] {
        let (plural, kind) = ("validatingadmissionpolicies", "ValidatingAdmissionPolicy");
        let errors = policy_errors(&api, plural, kind, &changes).await;
        assert_eq!(errors, [expected], "{changes}");
    }
    for (changes, expected) in [
        (json!({"policyName": ""}), "spec.policyName: Required value"),
        (json!({"paramRef": {"name": "a"}}), "spec.paramRef.parameterNotFoundAction: Required value"),
        (json!({"matchResources": {"matchPolicy": "X"}}), r#"spec.matchResources.matchPolicy: Unsupported value: "X": supported values: "Equivalent", "Exact""#),
    ] {
        let (plural, kind) = ("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding");
        let errors = policy_errors(&api, plural, kind, &changes).await;
        assert_eq!(errors, [expected], "{changes}");
    }
    let patch = |expression: &str| json!({"mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]});
    for (changes, expected) in [
        (json!({"reinvocationPolicy": "X"}), r#"spec.reinvocationPolicy: Unsupported value: "X": supported values: "IfNeeded", "Never""#),
        (patch("'x'"), r#"spec.mutations[0].jsonPatch.expression: Invalid value: "'x'": must evaluate to list(JSONPatch) but got string"#),
        (json!({"mutations": [{"patchType": "JSONPatch"}]}), "spec.mutations[0].jsonPatch: Required value: must be specified when patchType is JSONPatch"),
    ] {
        let (plural, kind) = ("mutatingadmissionpolicies", "MutatingAdmissionPolicy");
        let errors = policy_errors(&api, plural, kind, &changes).await;
        assert_eq!(errors, [expected], "{changes}");
    }
}

#[tokio::test]
async fn failing_variables_fail_only_where_they_are_used() {
    let api = Api::start().await;
    let spec = json!({
        "variables": [
            {"name": "size", "expression": "object.data.size()"},
            {"name": "bad", "expression": "object.data.absent"},
        ],
        "validations": [{
            "expression": "object.metadata.name != 'uses' || variables.bad == ''",
        }, {
            "expression": "object.metadata.name != 'optional' || variables.?bad.orValue('') == ''",
        }, {
            "expression": "object.metadata.name != 'has' || has(variables.bad)",
        }, {
            "expression": "variables.size < 2", "messageExpression": "'too many: %d'.format([variables.size])",
        }],
    });
    validating(&api, spec, json!({"validationActions": ["Deny"]})).await;
    let path = api.ns_path("configmaps");
    let fine = objects::config_map("fine", json!({"a": "1"}));
    api.create(&path, &fine).await.expect_code(201);
    let failed =
        r#"resulted in error: composited variable "bad" fails to evaluate: no such key: absent"#;
    for (name, data, expected) in [
        ("two", json!({"a": "1", "b": "2"}), "too many: 2"),
        ("uses", json!({"a": "1"}), failed),
        ("optional", json!({"a": "1"}), failed),
        ("has", json!({"a": "1"}), failed),
    ] {
        let refused = api.create(&path, &objects::config_map(name, data)).await;
        let refused = refused.expect_failure(422, "Invalid");
        assert!(
            refused.message().contains(expected),
            "{}",
            refused.message()
        );
    }
}

#[tokio::test]
async fn expressions_of_policies_have_the_results_of_a_real_server() {
    let api = Api::start().await;
    let namespace = api.namespace();
    let own_namespace = format!("namespaceObject.metadata.name == '{namespace}'");
    let expressions = [
        "oldObject == null && !has(oldObject.metadata)",
        "oldObject.?data.?k.orValue('none') == 'none' && !oldObject[?'data'].hasValue()",
        "object.data.?k.orValue('x') == 'v' && object.data[?'zz'].orValue('x') == 'x'",
        "object.data['in'] == 'q' && object.data.size() == 2",
        "object.data.all(k, v, v.size() < 5)",
        "object.metadata.name == request.name && request.operation == 'CREATE'",
        "request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps'",
        "!has(request.subResource) && has(request.dryRun) && !request.dryRun",
        "'system:authenticated' in request.userInfo.groups",
        "variables.n == 2 && variables.label == 'none'",
        "true || variables.bad == 1",
        own_namespace.as_str(),
        "has(namespaceObject.metadata.labels) && namespaceObject.status.phase == 'Active'",
    ];
    let spec = json!({
        "variables": [
            {"name": "n", "expression": "object.data.size()"},
            {"name": "bad", "expression": "1 / 0"},
            {"name": "label", "expression": "object.metadata.?labels['a'].orValue('none')"},
        ],
        "matchConditions": [{"name": "not-probed", "expression": "object.metadata.name != 'other'"}],
        "validations": expressions.map(|expression| json!({
            "expression": format!("has(object.data.probe) || ({expression})"),
        })),
    });
    validating(&api, spec, json!({"validationActions": ["Deny"]})).await;
    let object = objects::config_map("one", json!({"k": "v", "in": "q"}));
    let created = api.create(&api.ns_path("configmaps"), &object).await;
    created.expect_code(201);
}
