//! Reviews of users and their permissions.

use http::Method;
use kopf_tests::Api;
use serde_json::{Value, json};

fn review(group: &str, kind: &str, spec: &Value) -> Value {
    json!({"apiVersion": format!("{group}/v1"), "kind": kind, "spec": spec})
}

#[tokio::test]
async fn administrator_has_all_rights() {
    let api = Api::start().await;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    for attributes in [
        json!({"resourceAttributes": {"verb": "create", "resource": "pods", "namespace": api.namespace()}}),
        json!({"resourceAttributes": {"verb": "*", "group": "*", "resource": "*"}}),
        json!({"nonResourceAttributes": {"verb": "get", "path": "/healthz"}}),
    ] {
        let asked = review(
            "authorization.k8s.io",
            "SelfSubjectAccessReview",
            &attributes,
        );
        let response = api.created(path, &asked).await;
        assert_eq!(response.json["kind"], "SelfSubjectAccessReview");
        assert_eq!(response.json["spec"], attributes);
        assert_eq!(response.at("/status/allowed"), true);
    }
    let nothing = review(
        "authorization.k8s.io",
        "SelfSubjectAccessReview",
        &json!({}),
    );
    api.create(path, &nothing)
        .await
        .expect_failure(422, "Invalid");
    api.get(path).await.expect_failure(405, "MethodNotAllowed");
}

#[tokio::test]
async fn rights_of_another_user_can_be_reviewed() {
    let api = Api::start().await;
    let spec = json!({
        "user": "other",
        "groups": ["system:masters"],
        "resourceAttributes": {"verb": "delete", "resource": "pods", "namespace": api.namespace()},
    });
    let asked = review("authorization.k8s.io", "SubjectAccessReview", &spec);
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let response = api.created(path, &asked).await;
    assert_eq!(response.at("/status/allowed"), true);
    let local = review("authorization.k8s.io", "LocalSubjectAccessReview", &spec);
    let path = api.group_path("authorization.k8s.io/v1", "localsubjectaccessreviews");
    let response = api.created(&path, &local).await;
    assert_eq!(response.at("/status/allowed"), true);
}

#[tokio::test]
async fn rules_review_of_an_administrator_covers_everything() {
    let api = Api::start().await;
    let spec = json!({"namespace": api.namespace()});
    let asked = review("authorization.k8s.io", "SelfSubjectRulesReview", &spec);
    let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let response = api.created(path, &asked).await;
    let rules = response.at("/status/resourceRules").as_array().unwrap();
    let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    assert!(rules.contains(&all), "{rules:?}");
    let rules = response.at("/status/nonResourceRules").as_array().unwrap();
    assert!(
        rules.contains(&json!({"verbs": ["*"], "nonResourceURLs": ["*"]})),
        "{rules:?}"
    );
    assert_eq!(response.at("/status/incomplete"), false);
}

#[tokio::test]
async fn review_of_an_unknown_token_is_not_authenticated() {
    let api = Api::start().await;
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let asked = review(
        "authentication.k8s.io",
        "TokenReview",
        &json!({"token": "nonsense"}),
    );
    let response = api.created(path, &asked).await;
    assert_ne!(response.at("/status/authenticated"), true);
    assert_eq!(response.at("/status/user"), &json!({}));
    assert_ne!(response.at("/status/error"), &Value::Null);
    let empty = review(
        "authentication.k8s.io",
        "TokenReview",
        &json!({"token": ""}),
    );
    api.create(path, &empty)
        .await
        .expect_failure(400, "BadRequest");
}

#[tokio::test]
async fn self_subject_review_returns_the_user() {
    let api = Api::start().await;
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let response = api.created(path, &asked).await;
    assert!(
        response
            .at("/status/userInfo/username")
            .as_str()
            .is_some_and(|name| !name.is_empty())
    );
    let groups = response.at("/status/userInfo/groups").as_array().unwrap();
    assert!(
        groups.contains(&json!("system:authenticated")),
        "{groups:?}"
    );
    // Nothing is stored, so it cannot be read.
    api.request(Method::GET, path)
        .send()
        .await
        .expect_failure(405, "MethodNotAllowed");
}

#[tokio::test]
async fn reviews_are_not_served_as_tables() {
    let api = Api::start().await;
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"nonResourceAttributes": {"verb": "get", "path": "/healthz"}},
    });
    let response = api
        .request(Method::POST, path)
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .json(&review)
        .send()
        .await;
    response.expect_failure(406, "NotAcceptable");
}
