//! HTTP/2: shared connections, and the fallback to HTTP/1.1.

use std::convert::Infallible;
use std::sync::atomic::Ordering;

use futures::future::join_all;
use futures::stream::{self, StreamExt as _};
use http::{Request, Response, Version};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kopf_core::settings::{Backoffs, Networking};
use tokio_rustls::server::TlsStream;

use super::super::{ConnectionInfo, from_info};
use super::server::{Authority, Listening, listen};
use crate::Client;
use crate::request::Call;

/// Returns the version, and keeps the response of `/watch` open.
async fn answer(
    request: Request<Incoming>,
) -> Result<
    Response<impl hyper::body::Body<Data = bytes::Bytes, Error = Infallible> + use<>>,
    Infallible,
> {
    let said = format!("{:?}", format!("{:?}", request.version()));
    let first = stream::iter([Ok(Frame::data(bytes::Bytes::from(said)))]);
    let body = if request.uri().path() == "/watch" {
        first.chain(stream::pending()).boxed()
    } else {
        first.boxed()
    };
    Ok(Response::new(StreamBody::new(body)))
}

async fn serve(stream: TlsStream<tokio::net::TcpStream>) {
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let (stream, service) = (TokioIo::new(stream), service_fn(answer));
    if is_http2 {
        let mut server = http2::Builder::new(TokioExecutor::new());
        server.max_concurrent_streams(100);
        let _ = server.serve_connection(stream, service).await;
    } else {
        let _ = http1::Builder::new()
            .serve_connection(stream, service)
            .await;
    }
}

/// Starts a server with these protocols.
async fn server(authority: &Authority, protocols: &[&str]) -> Listening {
    let acceptor = authority.acceptor_of(protocols);
    listen(move |socket| {
        let acceptor = acceptor.clone();
        async move {
            if let Ok(stream) = acceptor.accept(socket).await {
                serve(stream).await;
            }
        }
    })
    .await
}

async fn client(authority: &Authority, server: &Listening, http2: bool) -> Client {
    let info = ConnectionInfo {
        server: format!("https://{}", server.address),
        ca_data: Some(authority.pem()),
        ..ConnectionInfo::default()
    };
    let mut networking = Networking::default();
    networking.error_backoffs = Backoffs::none();
    networking.http2 = http2;
    let client = from_info(info).await.unwrap();
    client.with_networking(&networking)
}

/// Sends requests for the version, all at once.
async fn versions(client: &Client, count: usize) -> Vec<String> {
    let asked = (0..count).map(|_| client.get_json("/version"));
    let asked = join_all(asked).await.into_iter();
    asked
        .map(|version| version.unwrap().as_str().unwrap().to_owned())
        .collect()
}

fn said(version: Version, count: usize) -> Vec<String> {
    vec![format!("{version:?}"); count]
}

#[tokio::test]
async fn watches_share_connections_below_the_limit_of_streams() {
    let authority = Authority::new();
    let server = server(&authority, &["h2", "http/1.1"]).await;
    let client = client(&authority, &server, true).await;
    let watch = Call::get("/watch");
    let mut watches = join_all((0..300).map(|_| client.open(&watch, None))).await;
    for watch in &mut watches {
        let frame = watch.as_mut().unwrap().frame().await.unwrap().unwrap();
        assert_eq!(frame.into_data().unwrap(), "\"HTTP/2.0\"");
    }
    assert_eq!(server.open.load(Ordering::Relaxed), 4);
    // Reads have another connection, and writes a third one.
    assert_eq!(versions(&client, 50).await, said(Version::HTTP_2, 50));
    assert_eq!(server.open.load(Ordering::Relaxed), 5);
    client
        .post_json("/things", &serde_json::json!({}))
        .await
        .unwrap();
    assert_eq!(server.open.load(Ordering::Relaxed), 6);
    // The room of ended streams is used again.
    watches.truncate(10);
    let more = join_all((0..100).map(|_| client.open(&watch, None))).await;
    assert!(more.iter().all(Result::is_ok));
    assert_eq!(server.accepted.load(Ordering::Relaxed), 6);
}

#[tokio::test]
async fn servers_without_http2_get_http1() {
    let authority = Authority::new();
    for protocols in [&["http/1.1"][..], &[]] {
        let server = server(&authority, protocols).await;
        let client = client(&authority, &server, true).await;
        for _ in 0..3 {
            assert_eq!(versions(&client, 1).await, said(Version::HTTP_11, 1));
        }
        assert_eq!(versions(&client, 20).await, said(Version::HTTP_11, 20));
        assert!(client.open(&Call::get("/watch"), None).await.is_ok());
    }
}

#[tokio::test]
async fn http2_is_optional() {
    let authority = Authority::new();
    let server = server(&authority, &["h2", "http/1.1"]).await;
    let client = client(&authority, &server, false).await;
    assert_eq!(versions(&client, 3).await, said(Version::HTTP_11, 3));
    // Requests of kube's client may be upgraded, which HTTP/2 cannot.
    let shared = self::client(&authority, &server, true).await;
    let request = Request::get("/version").body(Vec::new()).unwrap();
    let version: String = shared.kube().request(request).await.unwrap();
    assert_eq!(version, "HTTP/1.1");
}
