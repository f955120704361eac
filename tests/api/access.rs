//! Authentication: credentials and the resulting user.

use http::Method;
use kopf_tests::{Api, ApiResponse};
use serde_json::{Value, json};

const WHO_AM_I: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

fn who_am_i() -> Value {
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
}

#[tokio::test]
async fn requests_without_credentials_are_rejected() {
    let api = Api::start_over_tls().await;
    let maps = api.ns_path("configmaps");
    for path in [
        "/api",
        "/apis",
        "/version",
        "/openapi/v2",
        "/nosuch",
        "/api/v1/pods",
        &maps,
    ] {
        let refused = api
            .request_without_credentials(Method::GET, path)
            .await
            .send()
            .await;
        let refused = refused.expect_failure(401, "Unauthorized");
        assert_eq!(refused.message(), "Unauthorized", "{path}");
    }
    let object = kopf_tests::objects::config_map("a", Value::Null);
    let post = api
        .request_without_credentials(Method::POST, &maps)
        .await
        .json(&object)
        .send()
        .await;
    post.expect_failure(401, "Unauthorized");
    assert!(api.get(&maps).await.ok().items().is_empty());
}

#[tokio::test]
async fn wrong_credentials_are_rejected() {
    let api = Api::start_over_tls().await;
    for header in [
        "Bearer invalid",
        "Bearer ",
        "Basic YWRtaW46YWRtaW4=",
        "nonsense",
    ] {
        let request = api.request_without_credentials(Method::GET, "/api").await;
        let refused = request.header("authorization", header).send().await;
        refused.expect_failure(401, "Unauthorized");
    }
}

#[tokio::test]
async fn client_certificate_identifies_the_user() {
    let api = Api::start_over_tls().await;
    let me = api.created(WHO_AM_I, &who_am_i()).await;
    assert_ne!(me.at("/status/userInfo/username"), "");
    let groups = me.at("/status/userInfo/groups").as_array().unwrap();
    for group in ["system:masters", "system:authenticated"] {
        assert!(groups.contains(&json!(group)), "{groups:?}");
    }
}

#[tokio::test]
async fn token_identifies_the_user() {
    let api = Api::start_over_tls().await;
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"},
    });
    api.create(&api.ns_path("serviceaccounts"), &account)
        .await
        .ok();
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"});
    let response = api
        .create(&api.ns_path("serviceaccounts/robot/token"), &request)
        .await;
    let response = response.expect_code(201);
    let token = response.at("/status/token").as_str().unwrap();
    let with_token = async |token: &str| -> ApiResponse {
        let request = api
            .request_without_credentials(Method::POST, WHO_AM_I)
            .await;
        let request = request.header("authorization", &format!("Bearer {token}"));
        request.json(&who_am_i()).send().await
    };
    let me = with_token(token).await.expect_code(201);
    let name = format!("system:serviceaccount:{}:robot", api.namespace());
    assert_eq!(me.at("/status/userInfo/username"), &name);
    let groups = me.at("/status/userInfo/groups").as_array().unwrap();
    let own = format!("system:serviceaccounts:{}", api.namespace());
    for group in [
        "system:serviceaccounts",
        own.as_str(),
        "system:authenticated",
    ] {
        assert!(groups.contains(&json!(group)), "{groups:?}");
    }
    with_token(&format!("{token}x"))
        .await
        .expect_failure(401, "Unauthorized");

    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
    });
    let review = api
        .create("/apis/authentication.k8s.io/v1/tokenreviews", &review)
        .await
        .ok();
    assert_eq!(review.at("/status/authenticated"), true);
    assert_eq!(review.at("/status/user/username"), &name);
}

#[tokio::test]
async fn administrator_can_impersonate() {
    let api = Api::start().await;
    let me = api
        .request(Method::POST, WHO_AM_I)
        .header("impersonate-user", "jane")
        .header("impersonate-group", "developers")
        .json(&who_am_i())
        .send()
        .await
        .expect_code(201);
    assert_eq!(me.at("/status/userInfo/username"), "jane");
    assert_eq!(
        me.at("/status/userInfo/groups"),
        &json!(["developers", "system:authenticated"])
    );
}
