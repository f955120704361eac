//! Roles and bindings: escalation, names in field selectors, validation.

use http::Method;
use kopf_sandbox::Sandbox;
use serde_json::{Value, json};

use crate::support::{Api, ApiResponse, DEFINITIONS, MERGE, definition, request};

const GROUP: &str = "rbac.authorization.k8s.io";
const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
const CLUSTER_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn of_kind(kind: &str, name: &str, more: &Value) -> Value {
    let mut object = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": { "name": name },
    });
    let more = more.as_object().unwrap().clone();
    object.as_object_mut().unwrap().extend(more);
    object
}

/// Starts a sandbox in which the user `ann` has the right to write roles and bindings, and the
/// right to list the secret `only`.
async fn started() -> (Sandbox, Api) {
    let sandbox = Sandbox::builder().rbac().build().unwrap();
    let api = Api::of(&sandbox);
    let rules = json!({ "rules": [
        {
            "apiGroups": [GROUP], "resources": ["clusterroles", "clusterrolebindings"],
            "verbs": ["create", "update", "patch", "get"],
        },
        {
            "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["only"],
            "verbs": ["list", "watch", "deletecollection"],
        },
    ]});
    let role = of_kind("ClusterRole", "writer", &rules);
    api.create(CLUSTER_ROLES, &role).await.expect(201);
    let binding = of_kind(
        "ClusterRoleBinding",
        "ann",
        &json!({
            "roleRef": { "apiGroup": GROUP, "kind": "ClusterRole", "name": "writer" },
            "subjects": [{ "kind": "User", "name": "ann" }],
        }),
    );
    api.create(CLUSTER_BINDINGS, &binding).await.expect(201);
    (sandbox, api)
}

/// Sends a request as the user `ann`.
async fn as_ann(api: &Api, method: Method, path: &str, body: Option<&Value>) -> ApiResponse {
    let content = (method == Method::PATCH).then_some(MERGE);
    let content = content.or(body.map(|_| "application/json"));
    let body = body.map(Value::to_string).unwrap_or_default();
    let mut request = request(method, path, content, body);
    let user = "ann".parse().unwrap();
    request.headers_mut().insert("impersonate-user", user);
    api.send(request).await
}

fn message(response: ApiResponse, code: u16) -> String {
    let status = response.expect(code).json();
    status["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn aggregation_rules_require_all_rights() {
    let (_sandbox, api) = started().await;
    let rule = json!({ "aggregationRule": { "clusterRoleSelectors": [
        { "matchLabels": { "nothing": "yet" } },
    ]}});
    let role = of_kind("ClusterRole", "collector", &rule);
    let why = |name: &str| {
        format!(
            "clusterroles.rbac.authorization.k8s.io {name:?} is forbidden: must have cluster-admin privileges to use the aggregationRule"
        )
    };
    let refused = as_ann(&api, Method::POST, CLUSTER_ROLES, Some(&role)).await;
    assert_eq!(message(refused, 403), why("collector"));

    api.create(CLUSTER_ROLES, &role).await.expect(201);
    let path = format!("{CLUSTER_ROLES}/collector");
    let without = json!({ "aggregationRule": null });
    let labels = json!({ "metadata": { "labels": { "a": "b" } } });
    for patch in [&without, &labels] {
        let refused = as_ann(&api, Method::PATCH, &path, Some(patch)).await;
        assert_eq!(message(refused, 403), why("collector"));
    }
    let plain = of_kind("ClusterRole", "plain", &json!({ "rules": [] }));
    as_ann(&api, Method::POST, CLUSTER_ROLES, Some(&plain))
        .await
        .expect(201);
    let path = format!("{CLUSTER_ROLES}/plain");
    let refused = as_ann(&api, Method::PATCH, &path, Some(&rule)).await;
    assert_eq!(message(refused, 403), why("plain"));
}

#[tokio::test]
async fn labels_of_roles_require_the_rights_of_the_role() {
    let (_sandbox, api) = started().await;
    let labels = json!({ "metadata": { "labels": { "a": "b" } } });
    for path in [
        format!("{CLUSTER_ROLES}/cluster-admin"),
        format!("{CLUSTER_BINDINGS}/cluster-admin"),
    ] {
        let refused = as_ann(&api, Method::PATCH, &path, Some(&labels)).await;
        let why = message(refused, 403);
        assert!(
            why.contains("is attempting to grant RBAC permissions not currently held"),
            "{why}"
        );
        let finalizers = json!({ "metadata": { "finalizers": ["a.io/b"] } });
        for patch in [json!({}), finalizers] {
            as_ann(&api, Method::PATCH, &path, Some(&patch))
                .await
                .expect(200);
        }
    }
    let own = format!("{CLUSTER_ROLES}/writer");
    as_ann(&api, Method::PATCH, &own, Some(&labels))
        .await
        .expect(200);
}

#[tokio::test]
async fn field_selectors_name_the_object_of_a_list() {
    let (_sandbox, api) = started().await;
    for (selector, code) in [
        ("metadata.name%3Donly", 200),
        ("metadata.name%3D%3Donly,type%3Dx", 200),
        ("metadata.name%3Dother", 403),
        ("metadata.name!%3Donly", 403),
    ] {
        let path = format!("{SECRETS}?fieldSelector={selector}");
        let response = as_ann(&api, Method::GET, &path, None).await;
        assert_eq!(response.code, code, "{selector}");
        let path = format!("{path}&watch=true&timeoutSeconds=1");
        let response = as_ann(&api, Method::GET, &path, None).await;
        assert_eq!(response.code, code, "{selector}");
    }
    let other = format!("{SECRETS}?fieldSelector=metadata.name%3Dother");
    let refused = as_ann(&api, Method::GET, &other, None).await;
    assert!(message(refused, 403).starts_with("secrets \"other\" is forbidden: "));
    // Rules with names do not apply to this verb.
    let only = format!("{SECRETS}?fieldSelector=metadata.name%3Donly");
    let refused = as_ann(&api, Method::DELETE, &only, None).await;
    assert!(message(refused, 403).starts_with("secrets is forbidden: "));
}

#[tokio::test]
async fn collections_are_deleted_in_one_namespace_only() {
    let (_sandbox, api) = started().await;
    let maps = "/api/v1/configmaps";
    let before = api.get(maps).await.expect(200).json();
    let refused = api.delete(maps).await.expect(405).json();
    assert_eq!(refused["reason"], "MethodNotAllowed");
    assert_eq!(api.get(maps).await.json()["items"], before["items"]);

    let things = definition("things", "Thing");
    api.create(DEFINITIONS, &things).await.expect(201);
    let object =
        json!({ "apiVersion": "test.dev/v1", "kind": "Thing", "metadata": { "name": "x" } });
    for method in [Method::POST, Method::DELETE] {
        let body = object.to_string();
        let request = request(
            method,
            "/apis/test.dev/v1/things",
            Some("application/json"),
            body,
        );
        api.send(request).await.expect(404);
    }
    api.get("/apis/test.dev/v1/things").await.expect(200);
}

#[tokio::test]
async fn invalid_roles_and_bindings_are_rejected() {
    let (_sandbox, api) = started().await;
    let role = of_kind(
        "ClusterRole",
        "x",
        &json!({ "rules": [{ "verbs": ["get"] }] }),
    );
    api.create(CLUSTER_ROLES, &role).await.expect(422);
    let binding = of_kind("ClusterRoleBinding", "x", &json!({}));
    let refused = message(api.create(CLUSTER_BINDINGS, &binding).await, 422);
    assert!(
        refused.contains("roleRef.name: Required value"),
        "{refused}"
    );
}

#[tokio::test]
async fn invalid_access_reviews_are_rejected() {
    let (_sandbox, api) = started().await;
    let reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let local = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";
    let here = json!({ "namespace": "default", "verb": "get", "resource": "pods" });
    let there = json!({ "namespace": "other", "verb": "get", "resource": "pods" });
    let url = json!({ "path": "/x", "verb": "get" });
    let no_user = r#".authorization.k8s.io "" is invalid: spec.user: Invalid value: "": at least one of user or group must be specified"#;
    let elsewhere = r#".authorization.k8s.io "" is invalid: spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace"#;
    for (path, kind, spec, why) in [
        (
            reviews,
            "SubjectAccessReview",
            json!({ "resourceAttributes": here }),
            no_user,
        ),
        (
            local,
            "LocalSubjectAccessReview",
            json!({ "resourceAttributes": here }),
            no_user,
        ),
        (
            local,
            "LocalSubjectAccessReview",
            json!({ "user": "a", "resourceAttributes": there }),
            elsewhere,
        ),
        (
            local,
            "LocalSubjectAccessReview",
            json!({ "user": "a", "nonResourceAttributes": url }),
            "disallowed on this kind of request",
        ),
    ] {
        let review = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec });
        let refused = message(api.create(path, &review).await, 422);
        assert!(refused.ends_with(why), "{refused}");
    }
    let spec = json!({ "groups": ["staff"], "resourceAttributes": here });
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec,
    });
    api.create(reviews, &review).await.expect(201);
}
