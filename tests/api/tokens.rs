//! Tokens of service accounts: claims, audiences, bound objects.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::Method;
use kopf_tests::{Api, ApiResponse, eventually};
use serde_json::{Value, json};

const WHO_AM_I: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const THIS_SERVER: &str = "https://kubernetes.default.svc";

async fn create_account(api: &Api) -> ApiResponse {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"},
    });
    let path = api.ns_path("serviceaccounts");
    api.created(&path, &account).await
}

async fn request(api: &Api, spec: Value) -> ApiResponse {
    let request = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec,
    });
    api.create(&api.ns_path("serviceaccounts/robot/token"), &request)
        .await
}

fn token(response: &ApiResponse) -> String {
    response.at("/status/token").as_str().unwrap().to_owned()
}

fn part(token: &str, number: usize) -> Value {
    let part = token.split('.').nth(number).unwrap();
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
}

async fn who_am_i(api: &Api, token: &str) -> ApiResponse {
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    api.request_without_credentials(Method::POST, WHO_AM_I)
        .await
        .header("authorization", &format!("Bearer {token}"))
        .json(&review)
        .send()
        .await
}

async fn review(api: &Api, token: &str, audiences: Value) -> ApiResponse {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": {"token": token, "audiences": audiences},
    });
    api.created(REVIEWS, &review).await
}

#[tokio::test]
async fn tokens_are_signed_claims() {
    let api = Api::start().await;
    let account = create_account(&api).await;
    let response = request(&api, json!({"expirationSeconds": 1200}))
        .await
        .expect_code(201);
    let token = token(&response);
    assert_eq!(token.split('.').count(), 3);
    let header = part(&token, 0);
    assert!(["RS256", "ES256"].contains(&header["alg"].as_str().unwrap()));
    assert!(header["kid"].is_string());
    let claims = part(&token, 1);
    assert_eq!(claims["iss"], THIS_SERVER);
    assert_eq!(claims["aud"], json!([THIS_SERVER]));
    let subject = format!("system:serviceaccount:{}:robot", api.namespace());
    assert_eq!(claims["sub"], subject);
    let seconds = |name: &str| claims[name].as_i64().unwrap();
    assert_eq!(seconds("exp") - seconds("iat"), 1200);
    assert_eq!(seconds("nbf"), seconds("iat"));
    assert!(!claims["jti"].as_str().unwrap().is_empty());
    assert_eq!(
        claims["kubernetes.io"],
        json!({
            "namespace": api.namespace(),
            "serviceaccount": {"name": "robot", "uid": account.uid()},
        })
    );
}

#[tokio::test]
async fn token_of_another_audience_is_rejected() {
    let api = Api::start_over_tls().await;
    create_account(&api).await;
    let response = request(&api, json!({"audiences": ["vault", "bank"]})).await;
    let response = response.expect_code(201);
    assert_eq!(response.at("/spec/audiences"), &json!(["vault", "bank"]));
    let token = token(&response);
    assert_eq!(part(&token, 1)["aud"], json!(["vault", "bank"]));
    who_am_i(&api, &token)
        .await
        .expect_failure(401, "Unauthorized");
    let refused = review(&api, &token, Value::Null).await;
    assert_ne!(refused.at("/status/authenticated"), true);
    let error = refused.at("/status/error").as_str().unwrap();
    assert!(error.contains("token audiences"), "{error}");
    let accepted = review(&api, &token, json!(["vault", "shop"])).await;
    assert_eq!(accepted.at("/status/authenticated"), true);
    assert_eq!(accepted.at("/status/audiences"), &json!(["vault"]));
}

#[tokio::test]
async fn review_of_a_token_contains_the_audience() {
    let api = Api::start_over_tls().await;
    create_account(&api).await;
    let token = token(&request(&api, json!({})).await.expect_code(201));
    let me = who_am_i(&api, &token).await.expect_code(201);
    let id = part(&token, 1)["jti"].as_str().unwrap().to_owned();
    assert_eq!(
        me.at("/status/userInfo/extra"),
        &json!({"authentication.kubernetes.io/credential-id": [format!("JTI={id}")]})
    );
    let reviewed = review(&api, &token, Value::Null).await;
    assert_eq!(reviewed.at("/status/audiences"), &json!([THIS_SERVER]));
    let elsewhere = review(&api, &token, json!(["vault"])).await;
    assert_ne!(elsewhere.at("/status/authenticated"), true);
}

#[tokio::test]
async fn forged_tokens_are_rejected() {
    let api = Api::start_over_tls().await;
    create_account(&api).await;
    let token = token(&request(&api, json!({})).await.expect_code(201));
    let parts: Vec<&str> = token.split('.').collect();
    let mut claims = part(&token, 1);
    claims["sub"] = json!("system:serviceaccount:kube-system:admin");
    let forged = URL_SAFE_NO_PAD.encode(claims.to_string());
    let unsigned = URL_SAFE_NO_PAD.encode(json!({"alg": "none"}).to_string());
    for token in [
        format!("{}.{forged}.{}", parts[0], parts[2]),
        format!("{unsigned}.{}.", parts[1]),
        format!("{}.{}", parts[0], parts[1]),
    ] {
        who_am_i(&api, &token)
            .await
            .expect_failure(401, "Unauthorized");
    }
}

#[tokio::test]
async fn tokens_are_revoked_with_their_account() {
    let api = Api::start_over_tls().await;
    create_account(&api).await;
    let token = token(&request(&api, json!({})).await.expect_code(201));
    api.deleted(&api.ns_path("serviceaccounts/robot")).await;
    eventually("the token to be refused", async || {
        (who_am_i(&api, &token).await.code == 401).then_some(())
    })
    .await;
}

#[tokio::test]
async fn tokens_can_be_bound_to_pods() {
    let api = Api::start_over_tls().await;
    create_account(&api).await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]},
    });
    let pod = api.created(&api.ns_path("pods"), &pod).await;
    let bound = |name: &str, uid: &str| json!({"boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}});
    let token = token(
        &request(&api, bound("web", pod.uid()))
            .await
            .expect_code(201),
    );
    assert_eq!(
        part(&token, 1)["kubernetes.io"]["pod"],
        json!({"name": "web", "uid": pod.uid()})
    );
    let me = who_am_i(&api, &token).await.expect_code(201);
    let extra = me.at("/status/userInfo/extra");
    assert_eq!(
        extra["authentication.kubernetes.io/pod-name"],
        json!(["web"])
    );
    assert_eq!(
        extra["authentication.kubernetes.io/pod-uid"],
        json!([pod.uid()])
    );
    request(&api, bound("absent", ""))
        .await
        .expect_failure(404, "NotFound");
    request(&api, bound("web", "another"))
        .await
        .expect_failure(409, "Conflict");
    let other = json!({"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}});
    request(&api, other).await.expect_failure(400, "BadRequest");
}
