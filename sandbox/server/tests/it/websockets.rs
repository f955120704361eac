//! Watches over WebSockets.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::Request;
use kopf_sandbox::{Listen, Listening, Sandbox};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::support::tls::Kubeconfig;
use crate::support::{Api, CONFIG_MAPS};

type Socket = WebSocketStream<crate::support::tls::Stream>;

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
    assert_eq!(close_code(&message), Some(1000), "{message:?}");
}

fn close_code(message: &Message) -> Option<u16> {
    match message {
        Message::Close(Some(frame)) => Some(frame.code.into()),
        _ => None,
    }
}

#[tokio::test]
async fn close_frames_are_answered_by_a_normal_close() {
    let (_sandbox, listening) = started().await;
    let path = format!("{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name=x");
    let away = CloseFrame {
        code: CloseCode::Away,
        reason: "bye".into(),
    };
    for frame in [None, Some(away)] {
        let mut socket = open(&listening, &path).await.unwrap();
        socket.send(Message::Close(frame)).await.unwrap();
        let message = socket.next().await.unwrap().unwrap();
        assert_eq!(close_code(&message), Some(1000), "{message:?}");
    }
}

#[tokio::test]
async fn client_that_never_reads_is_not_read_either() {
    const MOST_BLOCKS: usize = 48;
    let (_sandbox, listening) = started().await;
    let path = format!("{CONFIG_MAPS}?watch=true&fieldSelector=metadata.name=x");
    let mut socket = open(&listening, &path).await.unwrap();
    // A masked ping with 121 bytes of zeros: 127 bytes.
    let mut ping = vec![0x89, 0xf9, 0, 0, 0, 0];
    ping.resize(127, 0);
    let block = ping.repeat(1024 * 1024 / ping.len());
    let stream = socket.get_mut();
    for _ in 0..MOST_BLOCKS {
        let sending = stream.write_all(&block);
        if tokio::time::timeout(Duration::from_secs(3), sending)
            .await
            .is_err()
        {
            return; // the buffers of the connection are full
        }
    }
    panic!("{MOST_BLOCKS} MiB of pings were read");
}

/// Sends the head of a request. Returns the response until the server closes the connection.
async fn rejected(config: &Kubeconfig, headers: &[(&str, &str)]) -> String {
    let mut head = format!("GET {CONFIG_MAPS}?watch=true HTTP/1.1\r\nHost: localhost\r\n");
    for (name, value) in headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    let mut stream = config.stream().await.unwrap();
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    let reading = stream.read_to_end(&mut response);
    // The end of the stream may be missing from TLS.
    let _ = tokio::time::timeout(Duration::from_secs(30), reading).await;
    String::from_utf8(response).unwrap()
}

#[tokio::test]
async fn invalid_handshakes_are_rejected_as_by_a_real_server() {
    let (_sandbox, listening) = started().await;
    let config = Kubeconfig::read(&listening.kubeconfig());
    let valid = [
        ("connection", "Upgrade"),
        ("upgrade", "websocket"),
        ("origin", "https://localhost"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "a"),
    ];
    let (key, version) = ("sec-websocket-key", "sec-websocket-version");
    let protocols = "sec-websocket-protocol";
    for (changed, value, code, body) in [
        (key, None, 400, "mismatch challenge/response"),
        (version, None, 400, "missing or bad WebSocket Version"),
        (version, Some("8"), 400, "missing or bad WebSocket Version"),
        ("origin", None, 403, ""),
        ("origin", Some("null"), 403, ""),
        (protocols, Some("base64.binary.k8s.io, b"), 400, ""),
    ] {
        let mut headers: Vec<(&str, &str)> = valid.to_vec();
        headers.retain(|(name, _)| *name != changed);
        headers.extend(value.map(|value| (changed, value)));
        let response = rejected(&config, &headers).await;
        let (head, text) = response.split_once("\r\n\r\n").unwrap();
        let status = format!("HTTP/1.1 {code} ");
        assert!(head.starts_with(&status), "{changed}: {value:?}: {head}");
        assert_eq!(text, body, "{changed}: {value:?}");
        let head = head.to_lowercase();
        let names_version = head.contains("sec-websocket-version: 13");
        assert_eq!(names_version, changed == version, "{head}");
    }
}

#[tokio::test]
async fn tokens_can_be_sent_as_a_protocol() {
    let sandbox = Sandbox::builder().token("t0ken", "ann", ["staff"]);
    let sandbox = sandbox.build().unwrap();
    let listening = sandbox.listen(Listen::default()).await.unwrap();
    let config = Kubeconfig::read(&listening.kubeconfig()).anonymous();
    let url = format!("wss://{}{CONFIG_MAPS}?watch=true", listening.local_addr());
    let token = |text: &str| {
        let encoded = URL_SAFE_NO_PAD.encode(text);
        format!("base64url.bearer.authorization.k8s.io.{encoded}")
    };
    let handshake = async |protocols: &str| {
        let mut request = with_origin(url.as_str().into_client_request().unwrap());
        let headers = request.headers_mut();
        headers.insert("sec-websocket-protocol", protocols.parse().unwrap());
        let stream = config.stream().await.unwrap();
        tokio_tungstenite::client_async(request, stream).await
    };
    let protocols = format!("{}, base64.binary.k8s.io", token("t0ken"));
    let (_socket, response) = handshake(&protocols).await.unwrap();
    let chosen = response.headers().get("sec-websocket-protocol").unwrap();
    assert_eq!(chosen, "base64.binary.k8s.io");
    for protocols in [
        format!("{}, base64.binary.k8s.io", token("wrong")),
        token("t0ken"),
    ] {
        match handshake(&protocols).await {
            Err(Error::Http(response)) => assert_eq!(response.status(), 401, "{protocols}"),
            other => panic!("{protocols}: {other:?}"),
        }
    }
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
