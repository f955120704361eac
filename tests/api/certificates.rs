//! Certificate signing requests: the requester is recorded, and only approval changes them.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kopf_tests::Api;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn pem() -> String {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params
        .distinguished_name
        .push(DnType::CommonName, "robot.example.com");
    params.serialize_request(&key).unwrap().pem().unwrap()
}

fn request(name: &str) -> Value {
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": name},
        "spec": {
            "request": STANDARD.encode(pem()),
            // A signer without a controller.
            "signerName": "example.com/tests",
            "usages": ["client auth"],
            "username": "another-user",
        },
        "status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Own"}]},
    })
}

#[tokio::test]
async fn requests_record_their_user_and_are_not_approved() {
    let api = Api::start().await;
    let name = api.unique("csr");
    let created = api.created(REQUESTS, &request(&name)).await;
    api.delete_at_end(format!("{REQUESTS}/{name}"));
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let path = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let me = api.created(path, &review).await;
    assert_eq!(
        created.at("/spec/username"),
        me.at("/status/userInfo/username")
    );
    assert_eq!(created.at("/spec/groups"), me.at("/status/userInfo/groups"));
    assert_eq!(created.at("/status"), &json!({}));
}

#[tokio::test]
async fn only_approval_changes_a_request() {
    let api = Api::start().await;
    let name = api.unique("csr");
    let created = api.created(REQUESTS, &request(&name)).await;
    let path = format!("{REQUESTS}/{name}");
    api.delete_at_end(path.clone());
    let mut changed = created.json.clone();
    changed["spec"]["usages"] = json!(["server auth"]);
    changed["metadata"]["labels"] = json!({"a": "b"});
    let updated = api.replaced(&path, &changed).await;
    assert_eq!(updated.at("/spec/usages"), &json!(["client auth"]));
    assert_eq!(updated.at("/metadata/labels/a"), "b");

    let mut approved = updated.json.clone();
    approved["status"]["conditions"] = json!([
        {"type": "Approved", "status": "True", "reason": "Test", "message": "fine"},
    ]);
    let approved = api.replaced(&format!("{path}/approval"), &approved).await;
    let condition = approved.at("/status/conditions/0");
    assert_eq!(condition["type"], "Approved");
    assert!(condition["lastUpdateTime"].is_string());
    assert!(condition["lastTransitionTime"].is_string());
    assert_eq!(approved.at("/status/certificate"), &Value::Null);
    let table = api
        .request(http::Method::GET, &path)
        .header(
            "accept",
            "application/json;as=Table;g=meta.k8s.io;v=v1,application/json",
        )
        .send()
        .await
        .ok();
    let cells = table.at("/rows/0/cells");
    assert_eq!(cells[2], "example.com/tests");
    assert_eq!(cells[4], "<none>");
    assert_eq!(cells[5], "Approved");
}

#[tokio::test]
async fn invalid_requests_are_rejected() {
    let api = Api::start().await;
    let mut no_request = request(&api.unique("csr"));
    no_request["spec"]["request"] = json!(STANDARD.encode("not a request"));
    let mut no_signer = request(&api.unique("csr"));
    no_signer["spec"]["signerName"] = json!("unqualified");
    let mut no_usages = request(&api.unique("csr"));
    no_usages["spec"]["usages"] = json!([]);
    for (object, field) in [
        (no_request, "spec.request"),
        (no_signer, "spec.signerName"),
        (no_usages, "spec.usages"),
    ] {
        let refused = api
            .create(REQUESTS, &object)
            .await
            .expect_failure(422, "Invalid");
        let fields: Vec<&str> = refused.causes().iter().map(|cause| cause.1).collect();
        assert!(
            fields.contains(&field) || refused.message().contains(field),
            "{}",
            refused.message()
        );
    }
}
