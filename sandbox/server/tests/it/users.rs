//! Tests of authentication, and of secrets in logs.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Request;
use http_body_util::Full;
use kopf_sandbox::{Builder, Listen, Listening, Sandbox};
use serde_json::{Value, json};

use crate::support::tls::Kubeconfig;
use crate::support::{Api, ApiResponse, CONFIG_MAPS, get, with_json};

const TOKEN: &str = "t0ken-of-ann";
const MASTER_TOKEN: &str = "t0ken-of-the-master";
const SELF_REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
const TOKEN_REVIEW: &str = "/apis/authentication.k8s.io/v1/tokenreviews";

fn builder() -> Builder {
    Sandbox::builder()
        .token(TOKEN, "ann", ["staff", "night-shift"])
        .token(MASTER_TOKEN, "root", ["system:masters"])
}

async fn listening() -> (Sandbox, Listening) {
    let sandbox = builder().build().unwrap();
    let listening = sandbox.listen(Listen::default()).await.unwrap();
    (sandbox, listening)
}

type Any = Request<Full<bytes::Bytes>>;

fn who_am_i() -> Any {
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview",
    });
    with_json(http::Method::POST, SELF_REVIEW, &review)
}

fn with_headers(mut request: Any, headers: &[(&'static str, &str)]) -> Any {
    for (name, value) in headers {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    request
}

fn user(response: ApiResponse) -> Value {
    response.expect(201).json()["status"]["userInfo"].clone()
}

#[track_caller]
fn assert_unauthorized(response: ApiResponse) {
    let status = response.expect(401).json();
    assert_eq!(status["kind"], "Status");
    assert_eq!(status["reason"], "Unauthorized");
}

#[tokio::test]
async fn in_process_requests_default_to_the_administrator() {
    let sandbox = builder().build().unwrap();
    let api = Api::of(&sandbox);
    let admin = user(api.send(who_am_i()).await);
    assert_eq!(admin["username"], "kubernetes-admin");
    assert_eq!(
        admin["groups"],
        json!(["system:masters", "system:authenticated"])
    );

    let bearer = format!("Bearer {TOKEN}");
    let as_ann = with_headers(who_am_i(), &[("authorization", &bearer)]);
    let ann = user(api.send(as_ann).await);
    assert_eq!(ann["username"], "ann");
    assert_eq!(
        ann["groups"],
        json!(["staff", "night-shift", "system:authenticated"])
    );

    for wrong in ["Bearer wrong", "Bearer", "Basic YTpi", &bearer[..12]] {
        let request = with_headers(get(CONFIG_MAPS), &[("authorization", wrong)]);
        assert_unauthorized(api.send(request).await);
    }
}

#[tokio::test]
async fn tls_users_are_identified_by_certificate_or_token() {
    let (_sandbox, listening) = listening().await;
    for (text, expected) in [
        (listening.kubeconfig(), "kubernetes-admin"),
        (listening.kubeconfig_with_token(TOKEN), "ann"),
        (listening.kubeconfig_with_token(MASTER_TOKEN), "root"),
    ] {
        let kubeconfig = Kubeconfig::read(&text);
        assert_eq!(kubeconfig.server, listening.url());
        let mut connection = kubeconfig.connect().await.unwrap();
        let known = user(connection.send(who_am_i()).await.unwrap());
        assert_eq!(known["username"], expected);
    }
}

#[tokio::test]
async fn tls_requests_without_credentials_are_rejected() {
    let (_sandbox, listening) = listening().await;
    let anonymous = Kubeconfig::read(&listening.kubeconfig()).anonymous();
    let mut connection = anonymous.connect().await.unwrap();
    for path in [CONFIG_MAPS, "/api", "/apis", "/nowhere", "/api/v1/secrets"] {
        assert_unauthorized(connection.get(path).await.unwrap());
    }
    let pretending = with_headers(get(CONFIG_MAPS), &[("impersonate-user", "root")]);
    assert_unauthorized(connection.send(pretending).await.unwrap());

    let wrong = Kubeconfig::read(&listening.kubeconfig_with_token("wrong"));
    let mut connection = wrong.connect().await.unwrap();
    assert_unauthorized(connection.get(CONFIG_MAPS).await.unwrap());
}

#[tokio::test]
async fn certificates_of_another_sandbox_are_rejected() {
    let (_one, here) = listening().await;
    let (_two, there) = listening().await;
    let mut stranger = Kubeconfig::read(&here.kubeconfig());
    there.url().clone_into(&mut stranger.server);
    assert!(
        stranger.connect().await.is_err(),
        "its authority is another"
    );
}

#[tokio::test]
async fn masters_can_impersonate() {
    let (_sandbox, listening) = listening().await;
    let master = Kubeconfig::read(&listening.kubeconfig_with_token(MASTER_TOKEN));
    let mut connection = master.connect().await.unwrap();
    let headers = [
        ("impersonate-user", "bob"),
        ("impersonate-group", "day-shift"),
        ("impersonate-group", "drivers"),
        ("impersonate-extra-scopes", "view"),
    ];
    let acting = with_headers(who_am_i(), &headers);
    let bob = user(connection.send(acting).await.unwrap());
    assert_eq!(bob["username"], "bob");
    assert_eq!(
        bob["groups"],
        json!(["day-shift", "drivers", "system:authenticated"])
    );
    assert_eq!(bob["extra"], json!({ "scopes": ["view"] }));

    let robot = [("impersonate-user", "system:serviceaccount:ns:robot")];
    let acting = with_headers(who_am_i(), &robot);
    let robot = user(connection.send(acting).await.unwrap());
    assert_eq!(
        robot["groups"],
        json!([
            "system:serviceaccounts",
            "system:serviceaccounts:ns",
            "system:authenticated"
        ])
    );
}

#[tokio::test]
async fn impersonation_requires_a_right() {
    let (_sandbox, listening) = listening().await;
    let ann = Kubeconfig::read(&listening.kubeconfig_with_token(TOKEN));
    let mut connection = ann.connect().await.unwrap();
    let acting = with_headers(who_am_i(), &[("impersonate-user", "root")]);
    let refused = connection.send(acting).await.unwrap().expect(403).json();
    assert_eq!(refused["reason"], "Forbidden");
    let unclear = with_headers(who_am_i(), &[("impersonate-group", "system:masters")]);
    let code = connection.send(unclear).await.unwrap().code;
    assert!(matches!(code, 400 | 403), "{code}");
}

#[tokio::test]
async fn tokens_are_reviewed() {
    let sandbox = builder().build().unwrap();
    let api = Api::of(&sandbox);
    for (token, known) in [(TOKEN, true), ("wrong", false)] {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": { "token": token },
        });
        let response = api.create(TOKEN_REVIEW, &review).await.expect(201);
        let status = response.json()["status"].clone();
        assert_eq!(status["authenticated"].as_bool().unwrap_or(false), known);
        assert_eq!(status["user"]["username"] == "ann", known);
    }
}

#[tokio::test]
async fn reassigned_token_belongs_to_the_last_user() {
    let sandbox = Sandbox::builder()
        .token("same", "first", ["a"])
        .token("same", "second", ["b"])
        .build()
        .unwrap();
    let request = with_headers(who_am_i(), &[("authorization", "Bearer same")]);
    let known = user(Api::of(&sandbox).send(request).await);
    assert_eq!(known["username"], "second");
}

/// Returns all strings that must not appear in logs.
async fn secrets(sandbox: &Sandbox, listening: &Listening) -> Vec<String> {
    let config: Value = serde_saphyr::from_str(&listening.kubeconfig()).unwrap();
    let key = config["users"][0]["user"]["client-key-data"].as_str();
    let key = String::from_utf8(STANDARD.decode(key.unwrap()).unwrap()).unwrap();
    let line = key.lines().nth(1).unwrap().to_owned();

    let api = Api::of(sandbox);
    let secret = json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": { "name": "hidden" },
        "stringData": { "password": "s3cr3t-password" },
    });
    let made = api
        .create("/api/v1/namespaces/default/secrets", &secret)
        .await;
    let encoded = made.expect(201).json()["data"]["password"].clone();
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "robot" },
    });
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    api.create(accounts, &account).await.expect(201);
    let wanted = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest" });
    let token = api
        .create(&format!("{accounts}/robot/token"), &wanted)
        .await;
    let token = token.expect(201).json()["status"]["token"].clone();

    let text = |value: Value| value.as_str().unwrap().to_owned();
    vec![
        TOKEN.to_owned(),
        MASTER_TOKEN.to_owned(),
        "PRIVATE KEY".to_owned(),
        line,
        "s3cr3t-password".to_owned(),
        text(encoded),
        text(token),
    ]
}

#[track_caller]
fn assert_hidden(secrets: &[String], shown: &str) {
    for secret in secrets {
        assert!(!shown.contains(secret), "{secret} is in {shown}");
    }
}

#[tokio::test]
async fn secrets_are_absent_from_debug_output() {
    let (sandbox, listening) = listening().await;
    let secrets = secrets(&sandbox, &listening).await;
    // Includes the serialised events of watches.
    let mut watch = Api::of(&sandbox).watch("/api/v1/secrets").await;
    let patch = json!({ "stringData": { "more": "s3cr3t-password" } });
    let api = Api::of(&sandbox);
    let path = "/api/v1/namespaces/default/secrets/hidden";
    api.merge(path, &patch).await.expect(200);
    watch.event().await;
    watch.event().await;
    assert_hidden(&secrets, &format!("{sandbox:?}"));
    assert_hidden(&secrets, &format!("{listening:?}"));
    assert_hidden(&secrets, &format!("{:?}", sandbox.service()));
    assert_hidden(&secrets, &format!("{:?}", sandbox.faults()));
    assert_hidden(&secrets, &format!("{:?}", Listen::default()));
}

#[test]
fn tokens_are_absent_from_debug_output_of_a_builder() {
    let secrets = [TOKEN.to_owned(), MASTER_TOKEN.to_owned()];
    assert_hidden(&secrets, &format!("{:?}", builder()));
    assert_hidden(&secrets, &format!("{:#?}", builder()));
}
