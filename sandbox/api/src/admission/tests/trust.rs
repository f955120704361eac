//! Tests of TLS verification of webhook servers.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{BasicConstraints, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::server::{Identity, Server, params, validated, with};

/// Returns the error message of a rejected server certificate.
async fn rejection(server: &Server, host: &str, bundle: &str) -> String {
    let client = json!({
        "url": format!("https://{host}:{}/allow", server.port),
        "caBundle": STANDARD.encode(bundle),
    });
    let hook = with(
        server.webhook("a.b.c", ""),
        &json!({ "clientConfig": client }),
    );
    match validated(&[hook]).await {
        Ok(()) => "trusted".to_owned(),
        Err(text) => text
            .split_once("x509: ")
            .map_or(text.clone(), |(_, why)| why.to_owned()),
    }
}

#[tokio::test]
async fn certificates_are_verified() {
    let server = Server::good().await;
    let bundle = server.bundle.clone();
    assert_eq!(rejection(&server, "127.0.0.1", &bundle).await, "trusted");
    assert_eq!(rejection(&server, "localhost", &bundle).await, "trusted");
    let other = Identity::signed(&["127.0.0.1"]).bundle;
    assert_eq!(
        rejection(&server, "127.0.0.1", &other).await,
        "certificate signed by unknown authority"
    );
    assert_eq!(
        rejection(&server, "127.0.0.1", &format!("{other}\n{bundle}")).await,
        "trusted"
    );
    assert!(
        rejection(&server, "127.0.0.1", "")
            .await
            .starts_with("certificate signed by unknown authority (no caBundle")
    );
    assert!(rejection(&server, "127.0.0.1", "zzz").await.ends_with(
        "could not get REST client: unable to load root certificates: unable to parse \
             bytes as PEM block"
    ));
    let elsewhere = Server::start(Identity::signed(&["example.com", "foo.example.com"])).await;
    let bundle = elsewhere.bundle.clone();
    assert_eq!(
        rejection(&elsewhere, "localhost", &bundle).await,
        "certificate is valid for example.com, foo.example.com, not localhost"
    );
    assert_eq!(
        rejection(&elsewhere, "127.0.0.1", &bundle).await,
        "cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"
    );
    let address = Server::start(Identity::signed(&["10.0.0.1"])).await;
    let bundle = address.bundle.clone();
    assert_eq!(
        rejection(&address, "127.0.0.1", &bundle).await,
        "certificate is valid for 10.0.0.1, not 127.0.0.1"
    );
}

#[tokio::test]
async fn ca_certificate_as_server_certificate_is_accepted_if_listed() {
    let server = Server::start(Identity::authority(&["127.0.0.1"])).await;
    let bundle = server.bundle.clone();
    assert_eq!(rejection(&server, "127.0.0.1", &bundle).await, "trusted");
    assert_eq!(
        rejection(&server, "localhost", &bundle).await,
        "certificate is not valid for any names, but wanted to match localhost"
    );
    let other = Identity::authority(&["127.0.0.1"]).bundle;
    assert_ne!(rejection(&server, "127.0.0.1", &other).await, "trusted");
}

#[tokio::test]
async fn listed_certificate_is_checked_for_validity_and_usage() {
    let key = KeyPair::generate().unwrap();
    let mut expired = params(&["127.0.0.1"]);
    expired.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    expired.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let certificate = expired.self_signed(&key).unwrap();
    let server = Server::start(Identity::new(&certificate, &key, certificate.pem())).await;
    let text = rejection(&server, "127.0.0.1", &certificate.pem()).await;
    assert!(
        text.starts_with("certificate has expired or is not yet valid: current time "),
        "{text}"
    );
    assert!(text.ends_with(" is after 2020-01-01T00:00:00Z"), "{text}");

    let mut client = params(&["127.0.0.1"]);
    client.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let certificate = client.self_signed(&key).unwrap();
    let server = Server::start(Identity::new(&certificate, &key, certificate.pem())).await;
    assert_eq!(
        rejection(&server, "127.0.0.1", &certificate.pem()).await,
        "certificate specifies an incompatible key usage"
    );
}

#[tokio::test]
async fn server_without_the_key_is_rejected() {
    // The certificate is in the bundle, but the server signs with another key.
    let listed = Identity::authority(&["127.0.0.1"]);
    let other = KeyPair::generate().unwrap();
    let provider = rustls::crypto::ring::default_provider();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(other.serialize_der()));
    let signer = provider.key_provider.load_private_key(key).unwrap();
    let certified = Arc::new(rustls::sign::CertifiedKey::new(
        listed.chain.clone(),
        signer,
    ));
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            let _ = acceptor.accept(stream).await;
        }
    });
    let server = Server::good().await;
    let client = json!({
        "url": format!("https://127.0.0.1:{port}/"), "caBundle": STANDARD.encode(&listed.bundle),
    });
    let hook = with(
        server.webhook("a.b.c", ""),
        &json!({ "clientConfig": client }),
    );
    let text = validated(&[hook]).await.unwrap_err();
    assert!(text.contains("tls: "), "{text}");
}
