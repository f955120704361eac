//! Watches over WebSockets.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests are tests"
)]

mod support;

use std::time::Duration;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::Request;
use kopf_sandbox::{Listen, Listening, Sandbox};
use serde_json::{Value, json};
use support::tls::Kubeconfig;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};

use support::Api;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

type Socket = WebSocketStream<support::tls::Stream>;

/// Opens a WebSocket at a path, with an origin.
async fn open(listening: &Listening, path: &str) -> Result<Socket, Error> {
    let config = Kubeconfig::read(&listening.kubeconfig());
    let request = format!("wss://{}{path}", listening.local_addr()).into_client_request()?;
    connect(&config, with_origin(request)).await
}

fn with_origin(mut request: Request<()>) -> Request<()> {
    let origin = "https://localhost".parse().unwrap();
    request.headers_mut().insert("origin", origin);
    request
}

async fn connect(config: &Kubeconfig, request: Request<()>) -> Result<Socket, Error> {
    let stream = config.stream().await?;
    let (socket, response) = tokio_tungstenite::client_async(request, stream).await?;
    assert_eq!(response.status(), 101);
    Ok(socket)
}

async fn next_event(socket: &mut Socket) -> Value {
    let message = tokio::time::timeout(Duration::from_secs(30), socket.next());
    match message.await.unwrap().unwrap().unwrap() {
        Message::Text(text) => serde_json::from_str(&text).unwrap(),
        other => panic!("{other:?}"),
    }
}

async fn started() -> (Sandbox, Listening) {
    let sandbox = Sandbox::builder().build().unwrap();
    let listening = sandbox.listen(Listen::default()).await.unwrap();
    (sandbox, listening)
}

async fn create(sandbox: &Sandbox, name: &str) {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name },
    });
    Api::of(sandbox)
        .create(CONFIG_MAPS, &object)
        .await
        .expect(201);
}

#[tokio::test]
async fn each_event_is_a_message() {
    let (sandbox, listening) = started().await;
    create(&sandbox, "before").await;
    let path = format!("{CONFIG_MAPS}?watch=true");
    let mut socket = open(&listening, &path).await.unwrap();
    let mut names = Vec::new();
    // The namespace has a config map with the certificate of the server.
    while names.last().is_none_or(|name| name != "before") {
        names.push(next_event(&mut socket).await["object"]["metadata"]["name"].clone());
    }
    for name in ["one", "two"] {
        create(&sandbox, name).await;
        let event = next_event(&mut socket).await;
        assert_eq!(event["type"], "ADDED");
        assert_eq!(event["object"]["metadata"]["name"], name);
    }
}

#[tokio::test]
async fn messages_of_clients_are_ignored() {
    let (sandbox, listening) = started().await;
    let path = format!("{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name=one");
    let mut socket = open(&listening, &path).await.unwrap();
    socket.send(Message::text("hello")).await.unwrap();
    socket
        .send(Message::Ping(Bytes::from_static(b"p")))
        .await
        .unwrap();
    let pong = socket.next().await.unwrap().unwrap();
    assert_eq!(pong, Message::Pong(Bytes::from_static(b"p")));
    create(&sandbox, "one").await;
    assert_eq!(next_event(&mut socket).await["type"], "ADDED");
}

#[tokio::test]
async fn socket_is_closed_at_the_end_of_a_watch() {
    let (_sandbox, listening) = started().await;
    let path = format!("{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name=x&timeoutSeconds=1");
    let mut socket = open(&listening, &path).await.unwrap();
    let message = socket.next().await.unwrap().unwrap();
    assert!(message.is_close(), "{message:?}");
}

#[tokio::test]
async fn socket_is_closed_with_the_listener() {
    let (sandbox, listening) = started().await;
    let path = format!("{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name=x");
    let mut socket = open(&listening, &path).await.unwrap();
    drop(listening);
    sandbox.shutdown().await;
    let end = tokio::time::timeout(Duration::from_secs(30), socket.next()).await;
    assert!(!matches!(end.unwrap(), Some(Ok(Message::Text(_)))));
}

#[tokio::test]
async fn other_requests_are_not_upgraded() {
    let (_sandbox, listening) = started().await;
    for (path, code) in [
        (CONFIG_MAPS, 200),
        ("/api/v1/nonsense?watch=true", 404),
        (&format!("{CONFIG_MAPS}?watch=true&labelSelector=!!"), 400),
    ] {
        match open(&listening, path).await {
            Err(Error::Http(response)) => assert_eq!(response.status(), code, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn credentials_and_an_origin_are_required() {
    let (_sandbox, listening) = started().await;
    let config = Kubeconfig::read(&listening.kubeconfig());
    let url = format!("wss://{}{CONFIG_MAPS}?watch=true", listening.local_addr());
    let request = url.as_str().into_client_request().unwrap();
    for (config, request, code) in [
        (
            config.clone().anonymous(),
            with_origin(request.clone()),
            401,
        ),
        (config, request, 403),
    ] {
        match connect(&config, request).await {
            Err(Error::Http(response)) => assert_eq!(response.status(), code),
            other => panic!("{code}: {other:?}"),
        }
    }
}
