//! Roles and bindings. Users are impersonated by the administrator (`kubectl --as`).

use http::Method;
use kopf_tests::{Api, ApiResponse, eventually, objects};
use serde_json::{Value, json};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Sends a request as another user.
async fn send(
    api: &Api,
    user: &str,
    method: Method,
    path: &str,
    body: Option<&Value>,
) -> ApiResponse {
    let request = api.request(method, path).header("impersonate-user", user);
    match body {
        Some(body) => request.json(body).send().await,
        None => request.send().await,
    }
}

async fn get(api: &Api, user: &str, path: &str) -> ApiResponse {
    send(api, user, Method::GET, path, None).await
}

/// Creates a role with these rules in the test's namespace and binds it to a user.
async fn grant(api: &Api, user: &str, rules: Value) {
    let name = format!("{user}-role");
    let role =
        json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": name}, "rules": rules});
    api.created(&api.group_path(RBAC, "roles"), &role).await;
    bind(api, user, "Role", &name).await;
}

async fn bind(api: &Api, user: &str, kind: &str, role: &str) {
    let binding = json!({
        "apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": format!("{user}-{role}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}],
    });
    api.created(&api.group_path(RBAC, "rolebindings"), &binding)
        .await;
}

/// Waits until a request is allowed: a real server reads new roles with a delay.
async fn allowed(api: &Api, user: &str, path: &str) {
    eventually("the role to be in force", async || {
        (get(api, user, path).await.code == 200).then_some(())
    })
    .await;
}

#[tokio::test]
async fn users_without_roles_can_only_discover() {
    let api = Api::start_with_rbac().await;
    let user = api.unique("user");
    for path in ["/api", "/apis", "/version", "/healthz", "/openapi/v3"] {
        get(&api, &user, path).await.expect_code(200);
    }
    let maps = api.ns_path("configmaps");
    let refused = get(&api, &user, &maps)
        .await
        .expect_failure(403, "Forbidden");
    assert_eq!(
        refused.message(),
        format!(
            "configmaps is forbidden: User \"{user}\" cannot list resource \"configmaps\" in API group \"\" in the namespace \"{}\"",
            api.namespace()
        )
    );
    assert_eq!(refused.details()["kind"], "configmaps");
    let refused = get(&api, &user, "/apis/apps/v1/deployments").await;
    assert_eq!(
        refused.expect_failure(403, "Forbidden").message(),
        format!(
            "deployments.apps is forbidden: User \"{user}\" cannot list resource \"deployments\" in API group \"apps\" at the cluster scope"
        )
    );
    let refused = get(&api, &user, "/metrics")
        .await
        .expect_failure(403, "Forbidden");
    assert_eq!(
        refused.message(),
        format!("forbidden: User \"{user}\" cannot get path \"/metrics\"")
    );
}

#[tokio::test]
async fn roles_allow_their_verbs_in_their_namespace() {
    let api = Api::start_with_rbac().await;
    let user = api.unique("user");
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]);
    grant(&api, &user, rules).await;
    let maps = api.ns_path("configmaps");
    allowed(&api, &user, &maps).await;
    let object = objects::config_map("one", json!({}));
    let refused = send(&api, &user, Method::POST, &maps, Some(&object)).await;
    refused.expect_failure(403, "Forbidden");
    let elsewhere = "/api/v1/namespaces/default/configmaps";
    get(&api, &user, elsewhere)
        .await
        .expect_failure(403, "Forbidden");
    let secrets = api.ns_path("secrets");
    get(&api, &user, &secrets)
        .await
        .expect_failure(403, "Forbidden");
}

#[tokio::test]
async fn rules_can_be_limited_to_names_and_subresources() {
    let api = Api::start_with_rbac().await;
    let user = api.unique("user");
    let rules = json!([
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["get"]},
    ]);
    grant(&api, &user, rules).await;
    for name in ["one", "two"] {
        let object = objects::config_map(name, json!({}));
        api.created(&api.ns_path("configmaps"), &object).await;
    }
    api.created(&api.ns_path("pods"), &objects::pod("one"))
        .await;
    allowed(&api, &user, &api.ns_path("configmaps/one")).await;
    let refused = get(&api, &user, &api.ns_path("configmaps/two")).await;
    assert!(
        refused
            .expect_failure(403, "Forbidden")
            .message()
            .starts_with("configmaps \"two\" is forbidden")
    );
    get(&api, &user, &api.ns_path("configmaps"))
        .await
        .expect_failure(403, "Forbidden");
    get(&api, &user, &api.ns_path("pods/one/status"))
        .await
        .expect_code(200);
    get(&api, &user, &api.ns_path("pods/one"))
        .await
        .expect_failure(403, "Forbidden");
}

#[tokio::test]
async fn access_reviews_match_the_rights() {
    let api = Api::start_with_rbac().await;
    let user = api.unique("user");
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]);
    grant(&api, &user, rules).await;
    allowed(&api, &user, &api.ns_path("configmaps")).await;
    for (verb, allowed) in [("list", true), ("delete", false)] {
        let attributes =
            json!({"namespace": api.namespace(), "verb": verb, "resource": "configmaps"});
        let own = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": attributes},
        });
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        let response = send(&api, &user, Method::POST, path, Some(&own))
            .await
            .expect_code(201);
        assert_eq!(response.at("/status/allowed"), allowed);
        let other = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": user, "resourceAttributes": attributes},
        });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let response = api.created(path, &other).await;
        assert_eq!(response.at("/status/allowed"), allowed);
    }
}

#[tokio::test]
async fn escalation_is_rejected() {
    let api = Api::start_with_rbac().await;
    let user = api.unique("user");
    let rules = json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["list", "create"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]},
    ]);
    grant(&api, &user, rules).await;
    let roles = api.group_path(RBAC, "roles");
    allowed(&api, &user, &roles).await;
    let role = |name: &str, resource: &str| {
        json!({
            "apiVersion": RBAC, "kind": "Role", "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}],
        })
    };
    let own = role("own", "configmaps");
    send(&api, &user, Method::POST, &roles, Some(&own))
        .await
        .expect_code(201);
    let more = role("more", "secrets");
    let refused = send(&api, &user, Method::POST, &roles, Some(&more)).await;
    let refused = refused.expect_failure(403, "Forbidden");
    let end = "is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}";
    assert!(refused.message().ends_with(end), "{}", refused.message());
    api.created(&roles, &more).await;
    let binding = |role: &str| {
        json!({
            "apiVersion": RBAC, "kind": "RoleBinding", "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"kind": "User", "name": "other", "apiGroup": "rbac.authorization.k8s.io"}],
        })
    };
    let bindings = api.group_path(RBAC, "rolebindings");
    let refused = send(&api, &user, Method::POST, &bindings, Some(&binding("more"))).await;
    refused.expect_failure(403, "Forbidden");
    let mut absent = binding("absent");
    absent["metadata"]["name"] = json!("early");
    let refused = send(&api, &user, Method::POST, &bindings, Some(&absent)).await;
    let refused = refused.expect_failure(404, "NotFound");
    let why = "rolebindings.rbac.authorization.k8s.io \"absent\" not found";
    assert_eq!(refused.message(), why);
    let own = binding("own");
    send(&api, &user, Method::POST, &bindings, Some(&own))
        .await
        .expect_code(201);
}
