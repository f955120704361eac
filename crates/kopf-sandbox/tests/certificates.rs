//! Tests of certificates for approved requests.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests are tests"
)]

mod support;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use kopf_sandbox::Sandbox;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};
use support::Api;
use x509_parser::pem::parse_x509_pem;

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
    let mut object = api
        .create(REQUESTS, &request(signer))
        .await
        .expect(201)
        .json();
    object["status"]["conditions"] = json!([
        {"type": "Approved", "status": "True", "reason": "Test", "message": "fine"},
    ]);
    let path = format!("{REQUESTS}/jane");
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
