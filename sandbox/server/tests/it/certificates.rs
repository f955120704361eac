//! Tests of certificates for approved requests.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kopf_sandbox::Sandbox;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};
use x509_parser::pem::parse_x509_pem;

use crate::support::Api;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

fn request(signer: &str) -> Value {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    let name = &mut params.distinguished_name;
    name.push(DnType::CommonName, "jane");
    name.push(DnType::OrganizationName, "developers");
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    json!({
        "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": {"name": "jane"},
        "spec": {
            "request": STANDARD.encode(pem), "signerName": signer, "expirationSeconds": 86400,
            "usages": ["client auth", "digital signature"],
        },
    })
}

async fn approved(api: &Api, signer: &str) -> Value {
    api.create(REQUESTS, &request(signer)).await.expect(201);
    approve(api).await
}

async fn approve(api: &Api) -> Value {
    let path = format!("{REQUESTS}/jane");
    let mut object = api.get(&path).await.expect(200).json();
    object["status"]["conditions"] = json!([
        {"type": "Approved", "status": "True", "reason": "Test", "message": "fine"},
    ]);
    api.update(&format!("{path}/approval"), &object)
        .await
        .expect(200);
    api.get(&path).await.expect(200).json()
}

#[tokio::test]
async fn approved_requests_are_signed() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    let object = approved(&api, "kubernetes.io/kube-apiserver-client").await;
    let encoded = object["status"]["certificate"].as_str().unwrap();
    let pem = STANDARD.decode(encoded).unwrap();
    let (_, pem) = parse_x509_pem(&pem).unwrap();
    let certificate = pem.parse_x509().unwrap();
    let subject = certificate.subject().to_string();
    assert!(subject.contains("CN=jane"), "{subject}");
    assert!(subject.contains("O=developers"), "{subject}");
    assert!(certificate.issuer().to_string().contains("kopf-sandbox-ca"));
    assert!(!certificate.is_ca());
    // A day, backdated by five minutes.
    let validity = certificate.validity();
    let seconds = validity.not_after.timestamp() - validity.not_before.timestamp();
    assert_eq!(seconds, 86_400 + 300);
    assert!(validity.is_valid());
    let usage = certificate.extended_key_usage().unwrap().unwrap();
    assert!(usage.value.client_auth && !usage.value.server_auth);
    sandbox.shutdown().await;
}

#[tokio::test]
async fn requests_of_other_signers_wait() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    let object = approved(&api, "example.com/other").await;
    assert_eq!(object["status"]["certificate"], Value::Null);
    assert_eq!(object["status"]["conditions"][0]["type"], "Approved");
    sandbox.shutdown().await;
}

#[tokio::test]
async fn short_validities_are_exact() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    let mut short = request("kubernetes.io/kube-apiserver-client");
    short["spec"]["expirationSeconds"] = json!(599);
    api.create(REQUESTS, &short).await.expect(422);
    short["spec"]["expirationSeconds"] = json!(700);
    api.create(REQUESTS, &short).await.expect(201);
    let object = approve(&api).await;
    let encoded = object["status"]["certificate"].as_str().unwrap();
    let pem = STANDARD.decode(encoded).unwrap();
    let (_, pem) = parse_x509_pem(&pem).unwrap();
    let validity = pem.parse_x509().unwrap().validity().clone();
    let seconds = validity.not_after.timestamp() - validity.not_before.timestamp();
    assert_eq!(seconds, 700);
    sandbox.shutdown().await;
}

#[tokio::test]
async fn issued_certificates_must_be_pem() {
    let sandbox = Sandbox::builder().build().unwrap();
    let api = Api::of(&sandbox);
    let other = request("example.com/other");
    api.create(REQUESTS, &other).await.expect(201);
    let path = format!("{REQUESTS}/jane/status");
    let issue = async |pem: &str| {
        let patch = json!({ "status": { "certificate": STANDARD.encode(pem) } });
        api.merge(&path, &patch).await
    };
    for (pem, why) in [
        ("x", "must contain at least one CERTIFICATE PEM block"),
        (
            "-----BEGIN FOO-----\nMTIz\n-----END FOO-----\n",
            "only CERTIFICATE PEM blocks are allowed, found \"FOO\"",
        ),
        (
            "-----BEGIN CERTIFICATE-----\nMTIz\n-----END CERTIFICATE-----\n",
            "x509: malformed certificate",
        ),
    ] {
        let refused = issue(pem).await.expect(422).json();
        let message = refused["message"].as_str().unwrap();
        assert!(message.ends_with(why), "{message}");
    }
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::default().self_signed(&key).unwrap();
    issue(&certificate.pem()).await.expect(200);
    issue(&format!("{0}{0}", certificate.pem()))
        .await
        .expect(422);
    sandbox.shutdown().await;
}
