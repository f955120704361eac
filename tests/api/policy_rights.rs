//! Checks of rights in the expressions of policies.

use kopf_tests::{Api, ApiResponse, eventually, objects};
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io/v1";
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
async fn policies_check_rights() {
    let api = Api::start_with_rbac().await;
    let namespace = api.namespace().to_owned();
    let reader = format!("reader-{namespace}");
    let role = json!({
        "apiVersion": RBAC, "kind": "Role", "metadata": {"name": "reader"},
        "rules": [
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        ],
    });
    api.created(&api.group_path(RBAC, "roles"), &role).await;
    let account = json!({"kind": "ServiceAccount", "name": "robot", "namespace": namespace});
    let user = json!({"kind": "User", "name": reader, "apiGroup": "rbac.authorization.k8s.io"});
    let binding = json!({
        "apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [user, account],
    });
    let bindings = api.group_path(RBAC, "rolebindings");
    api.created(&bindings, &binding).await;
    let checks = [
        "authorizer.group('apps').resource('deployments').namespace('NS').check('get').allowed()",
        "!authorizer.group('apps').resource('deployments').namespace('NS').check('list').allowed()",
        "!authorizer.group('apps').resource('deployments').check('get').allowed()",
        "!authorizer.group('').resource('deployments').namespace('NS').check('get').allowed()",
        "!authorizer.group('apps').resource('deployments').subresource('scale').namespace('NS').check('get').allowed()",
        "authorizer.group('apps').resource('deployments').namespace('NS').name('x').check('get').allowed()",
        "authorizer.group('apps').resource('deployments').namespace('NS').labelSelector('a=b').check('get').allowed()",
        "authorizer.path('/healthz').check('get').allowed()",
        "!authorizer.path('/secret').check('get').allowed()",
        "authorizer.requestResource.check('create').allowed()",
        "!authorizer.requestResource.check('delete').allowed()",
        "!authorizer.requestResource.namespace('other').check('create').allowed()",
        "authorizer.serviceAccount('NS', 'robot').group('apps').resource('deployments').namespace('NS').check('get').allowed()",
        "!authorizer.serviceAccount('NS', 'other').group('apps').resource('deployments').namespace('NS').check('get').allowed()",
        "authorizer.requestResource.check('create').reason().startsWith('RBAC: allowed by RoleBinding ')",
        "authorizer.requestResource.check('delete').reason() == ''",
        "!authorizer.requestResource.check('create').errored()",
        "authorizer.requestResource.check('create').error() == ''",
        "variables.mine.check('create').allowed()",
    ];
    let checks = checks.map(|check| json!({"expression": check.replace("NS", &namespace)}));
    let variable = json!({"name": "mine", "expression": "authorizer.requestResource"});
    let spec = json!({
        "variables": [variable],
        "matchConditions": [{"name": "users", "expression": format!("request.userInfo.username == '{reader}' || 'probe' in object.data")}],
        "validations": checks,
    });
    let maps = api.ns_path("configmaps");
    let create_as_reader = async |name: &str| {
        let request = api.request(http::Method::POST, &maps);
        let request = request.header("impersonate-user", &reader);
        request
            .json(&objects::config_map(name, json!({"a": "b"})))
            .send()
            .await
    };
    eventually("the role to be in force", async || {
        (create_as_reader("before").await.code == 201).then_some(())
    })
    .await;
    validating(&api, spec, json!({"validationActions": ["Deny"]})).await;
    create_as_reader("after").await.expect_code(201);
}

#[tokio::test]
async fn failing_checks_of_rights_deny_requests() {
    let api = Api::start_with_rbac().await;
    let checks = |count: usize| vec!["authorizer.requestResource.check('get').allowed()"; count];
    let cases = [
        ("path", "authorizer.path(object.data.empty).check('get').allowed()".to_owned(), Some("path must not be empty")),
        ("group", "authorizer.group('').resource(object.data.empty).check('get').allowed()".to_owned(), Some("resource must not be empty")),
        ("name", "authorizer.serviceAccount('default', object.data.bad).path('/').check('get').allowed()".to_owned(), Some("Invalid service account name")),
        ("namespace", "authorizer.serviceAccount(object.data.bad, 'x').path('/').check('get').allowed()".to_owned(), Some("Invalid service account namespace")),
        ("two", checks(2).join(" && "), None),
        ("three", checks(3).join(" && "), Some("operation cancelled: actual cost limit exceeded")),
    ];
    let rules: Vec<Value> = cases
        .iter()
        .map(|(name, expression, _)| {
            json!({"expression": format!("object.metadata.name != '{name}' || {expression}")})
        })
        .collect();
    let spec = json!({"validations": rules});
    validating(&api, spec, json!({"validationActions": ["Deny"]})).await;
    let maps = api.ns_path("configmaps");
    for (name, expression, error) in cases {
        let map = objects::config_map(name, json!({"empty": "", "bad": "!"}));
        let response = api.create(&maps, &map).await;
        match error {
            None => {
                response.expect_code(201);
            }
            Some(error) => {
                let refused = response.expect_code(422);
                let message = refused.message();
                let wanted = format!("|| {expression}' resulted in error: {error}");
                assert!(message.ends_with(&wanted), "{message}");
            }
        }
    }
}
