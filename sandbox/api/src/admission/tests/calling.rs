//! Tests of resolving webhook addresses and calling them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::super::*;
use super::server::{Identity, Server, caller, chain, mutated, validated, webhooks, with};
use super::{attributes, kind};

#[tokio::test]
async fn services_are_mapped_to_urls() {
    let server = Server::start(Identity::signed(&["svc.ns.svc"])).await;
    let client = json!({
        "service": { "namespace": "ns", "name": "svc", "path": "/allow", "port": 8443 },
        "caBundle": STANDARD.encode(&server.bundle),
    });
    let hook = with(
        server.webhook("a.b.c", ""),
        &json!({ "clientConfig": client }),
    );
    let hooks = webhooks(&[hook]);
    let kind = kind("kopf.dev", "things", &["v1"], &[]);
    let request = attributes(&kind, Operation::Create);
    let caller = caller();
    let error = chain(&hooks, &caller, &request)
        .validate(None, None, &mut Vec::new())
        .await;
    let text = error.unwrap_err().message().to_owned();
    assert!(
        text.contains(
            r#"Post "https://svc.ns.svc:8443/allow?timeout=5s": service "svc" not found"#
        ),
        "{text}"
    );
    let mapped = |url: &str| Caller::new(vec![ServiceUrl::new("ns", "svc", url).unwrap()]);
    let caller = mapped(&format!("https://127.0.0.1:{}/pre/", server.port));
    chain(&hooks, &caller, &request)
        .validate(None, None, &mut Vec::new())
        .await
        .unwrap();
    assert_eq!(server.paths(), ["pre/allow"]);
}

#[tokio::test]
async fn external_names_are_dialled_and_certificates_are_for_the_service() {
    for (name, is_accepted) in [("svc.ns.svc", true), ("localhost", false)] {
        let server = Server::start(Identity::signed(&[name])).await;
        let client = json!({
            "service": { "namespace": "ns", "name": "svc", "path": "/allow", "port": server.port },
            "caBundle": STANDARD.encode(&server.bundle),
        });
        let hook = with(
            server.webhook("a.b.c", ""),
            &json!({ "clientConfig": client }),
        );
        let (hooks, caller) = (webhooks(&[hook]), caller());
        let kind = kind("kopf.dev", "things", &["v1"], &[]);
        let request = attributes(&kind, Operation::Create);
        let found = |namespace: &str, name: &str| {
            assert_eq!((namespace, name), ("ns", "svc"));
            Some(json!({ "spec": { "type": "ExternalName", "externalName": "localhost" } }))
        };
        let mut chain = chain(&hooks, &caller, &request);
        chain.find_service = &found;
        let validated = chain.validate(None, None, &mut Vec::new()).await;
        if is_accepted {
            validated.unwrap();
            assert_eq!(server.paths(), ["allow"]);
        } else {
            let text = validated.unwrap_err().message().to_owned();
            assert!(
                text.ends_with("x509: certificate is valid for localhost, not svc.ns.svc"),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn connections_are_reused() {
    let server = Server::good().await;
    let hooks = webhooks(&[server.webhook("a.b.c", "allow")]);
    let kind = kind("kopf.dev", "things", &["v1"], &[]);
    let request = attributes(&kind, Operation::Create);
    let caller = caller();
    for _ in 0..5 {
        chain(&hooks, &caller, &request)
            .validate(None, None, &mut Vec::new())
            .await
            .unwrap();
    }
    assert_eq!(*server.connections.lock().unwrap(), 1);
    assert_eq!(server.paths().len(), 5);
}

#[tokio::test]
async fn closed_connections_are_reopened() {
    let server = Server::good().await;
    let hooks = webhooks(&[server.webhook("a.b.c", "close")]);
    let kind = kind("kopf.dev", "things", &["v1"], &[]);
    let request = attributes(&kind, Operation::Create);
    let caller = caller();
    for _ in 0..3 {
        chain(&hooks, &caller, &request)
            .validate(None, None, &mut Vec::new())
            .await
            .unwrap();
    }
    assert_eq!(*server.connections.lock().unwrap(), 3);
    let hooks = webhooks(&[server.webhook("a.b.c", "allow")]);
    chain(&hooks, &caller, &request)
        .validate(None, None, &mut Vec::new())
        .await
        .unwrap();
    server.stop().await;
    let error = chain(&hooks, &caller, &request)
        .validate(None, None, &mut Vec::new())
        .await;
    let text = error.unwrap_err().message().to_owned();
    assert!(text.ends_with("connect: connection refused"), "{text}");
}

#[tokio::test]
async fn plain_http_server_is_recognised() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
        let (mut stream, _) = listener.accept().await.unwrap();
        let _ = stream.read(&mut [0; 1024]).await;
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .await
            .unwrap();
        let _ = stream.read(&mut [0; 1024]).await;
    });
    let server = Server::good().await;
    let client = json!({ "url": format!("https://127.0.0.1:{port}/") });
    let hook = with(
        server.webhook("a.b.c", ""),
        &json!({ "clientConfig": client }),
    );
    let text = validated(&[hook]).await.unwrap_err();
    assert!(
        text.ends_with("http: server gave HTTP response to HTTPS client"),
        "{text}"
    );
}

#[tokio::test]
async fn unmatched_webhooks_are_not_called() {
    let server = Server::good().await;
    let mut hook = server.webhook("a.b.c", "deny");
    hook["rules"][0]["resources"] = json!(["others"]);
    validated(std::slice::from_ref(&hook)).await.unwrap();
    mutated(&[hook]).await.unwrap();
    assert!(server.paths().is_empty());
}
