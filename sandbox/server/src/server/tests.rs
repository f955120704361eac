//! Tests of the listener with real clients and sockets.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt as _, StreamExt as _};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Either, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kopf_sandbox_api::access::PeerCertificate;
use kopf_sandbox_api::body::Unending;
use kopf_sandbox_api::certificates::{Authority, Identity};
use kopf_sandbox_api::fault::ConnectionFault;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::listener::{Listener, Settings};

type Stream = futures::stream::BoxStream<'static, Result<Frame<Bytes>, std::io::Error>>;
type Body = Either<Full<Bytes>, StreamBody<Stream>>;

/// A service that returns the user; other paths have other behaviours.
#[derive(Clone)]
struct Greeter {
    /// Controls the stream on `/watch` after its first line.
    stream: watch::Receiver<bool>,
}

impl tower::Service<Request<Incoming>> for Greeter {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let user = request
            .extensions()
            .get::<PeerCertificate>()
            .map_or("anonymous".to_owned(), |peer| {
                format!("{} {:?}", peer.common_name, peer.organizations)
            });
        let mut breaking = self.stream.clone();
        async move {
            let mut response = match request.uri().path() {
                "/watch" => {
                    let first = futures::stream::iter([Ok(Frame::data(Bytes::from("first\n")))]);
                    let rest = async move {
                        let _ = breaking.wait_for(|broken| *broken).await;
                        Err(std::io::ErrorKind::ConnectionReset.into())
                    };
                    let stream: Stream = first.chain(rest.into_stream()).boxed();
                    let mut response = Response::new(Either::Right(StreamBody::new(stream)));
                    response.extensions_mut().insert(Unending);
                    response
                }
                _ => Response::new(Either::Left(Full::from(format!(
                    "{:?} {user}",
                    request.version()
                )))),
            };
            match request.uri().path() {
                "/reset" => {
                    response.extensions_mut().insert(ConnectionFault::Reset);
                }
                "/half-open" => {
                    response.extensions_mut().insert(ConnectionFault::HalfOpen);
                }
                _ => {}
            }
            Ok(response)
        }
        .boxed()
    }
}

struct Setup {
    authority: Authority,
    listener: Listener,
    break_stream: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

type Sender = hyper::client::conn::http1::SendRequest<Full<Bytes>>;

fn authority() -> Authority {
    // Real time: TLS clients verify certificates with the system clock.
    Authority::generate(jiff::Timestamp::now()).unwrap()
}

impl Setup {
    async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    async fn with(settings: Settings) -> Self {
        let authority = authority();
        let tls = authority.server_config(&[], &[]).unwrap();
        let (break_stream, stream) = watch::channel(false);
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::bind(address, tls, Greeter { stream }, settings)
            .await
            .unwrap();
        Self {
            authority,
            listener,
            break_stream,
            tasks: JoinSet::new(),
        }
    }

    fn client_config(&self, identity: Option<&Identity>, alpn: &str) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.authority.pem().as_bytes()).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => builder
                .with_client_auth_cert(
                    vec![
                        CertificateDer::from_pem_slice(identity.certificate_pem().as_bytes())
                            .unwrap(),
                    ],
                    PrivateKeyDer::from_pem_slice(identity.key_pem().as_bytes()).unwrap(),
                )
                .unwrap(),
        };
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        Arc::new(config)
    }

    async fn tls(
        &self,
        identity: Option<&Identity>,
        alpn: &str,
        name: &str,
    ) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.listener.address()).await?;
        let name = ServerName::try_from(name.to_owned()).unwrap();
        TlsConnector::from(self.client_config(identity, alpn))
            .connect(name, stream)
            .await
    }

    async fn http1(&mut self, identity: Option<&Identity>) -> Sender {
        let stream = self.tls(identity, "http/1.1", "127.0.0.1").await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .unwrap();
        self.tasks.spawn(connection.map(drop));
        sender
    }
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(path)
        .header("host", "localhost")
        .body(Full::default())
        .unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(
        response
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .to_vec(),
    )
    .unwrap()
}

#[tokio::test]
async fn clients_are_identified_by_their_certificates() {
    let mut setup = Setup::new().await;
    let admin = setup.authority.admin().unwrap();
    let mut sender = setup.http1(Some(&admin)).await;
    let answer = sender.send_request(get("/")).await.unwrap();
    assert_eq!(
        text(answer).await,
        r#"HTTP/1.1 kubernetes-admin ["system:masters"]"#
    );
    let mut sender = setup.http1(None).await;
    assert_eq!(
        text(sender.send_request(get("/")).await.unwrap()).await,
        "HTTP/1.1 anonymous"
    );
}

#[tokio::test]
async fn certificates_of_another_authority_are_rejected() {
    let setup = Setup::new().await;
    let stranger = authority().admin().unwrap();
    // With TLS 1.3 the client gets the rejection on reading.
    let refused = match setup.tls(Some(&stranger), "http/1.1", "127.0.0.1").await {
        Err(error) => Err(error),
        Ok(mut stream) => stream.read_u8().await,
    };
    assert!(refused.is_err());
}

#[tokio::test]
async fn server_certificate_covers_exactly_its_names() {
    let setup = Setup::new().await;
    for name in ["localhost", "127.0.0.1", "::1", "kubernetes.default.svc"] {
        setup.tls(None, "h2", name).await.unwrap();
    }
    assert!(setup.tls(None, "h2", "example.com").await.is_err());
}

#[tokio::test]
async fn http2_streams_run_concurrently() {
    let mut setup = Setup::new().await;
    let stream = setup.tls(None, "h2", "localhost").await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .unwrap();
    setup.tasks.spawn(connection.map(drop));
    let url = |path: &str| {
        Request::get(format!("https://localhost{path}"))
            .body(Full::<Bytes>::default())
            .unwrap()
    };
    let mut watch = sender
        .send_request(url("/watch"))
        .await
        .unwrap()
        .into_body();
    let first = watch.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(first, "first\n");
    assert_eq!(
        text(sender.send_request(url("/")).await.unwrap()).await,
        "HTTP/2.0 anonymous"
    );
}

#[tokio::test]
async fn marked_response_resets_the_connection() {
    let mut setup = Setup::new().await;
    let mut sender = setup.http1(None).await;
    let error = sender.send_request(get("/reset")).await.unwrap_err();
    let source = std::error::Error::source(&error).and_then(|e| e.downcast_ref::<io::Error>());
    assert_eq!(
        source.map(io::Error::kind),
        Some(io::ErrorKind::ConnectionReset),
        "{error:?}"
    );
}

#[tokio::test]
async fn broken_stream_resets_the_connection() {
    let mut setup = Setup::new().await;
    let mut sender = setup.http1(None).await;
    let mut watch = sender
        .send_request(get("/watch"))
        .await
        .unwrap()
        .into_body();
    watch.frame().await.unwrap().unwrap();
    setup.break_stream.send(true).unwrap();
    assert!(watch.frame().await.unwrap().is_err());
}

#[tokio::test]
async fn half_open_connection_is_silent_until_reset() {
    let mut setup = Setup::new().await;
    let mut sender = setup.http1(None).await;
    let mut call = std::pin::pin!(sender.send_request(get("/half-open")));
    let silent = tokio::time::timeout(Duration::from_millis(100), call.as_mut()).await;
    assert!(silent.is_err());
    setup.listener.connections().reset_all();
    assert!(call.await.is_err());
}

#[tokio::test]
async fn all_connections_freeze_and_resume_or_are_reset() {
    let mut setup = Setup::new().await;
    let mut sender = setup.http1(None).await;
    text(sender.send_request(get("/")).await.unwrap()).await;
    let connections = setup.listener.connections().clone();
    connections.freeze(true);
    let mut late = TcpStream::connect(setup.listener.address()).await.unwrap();
    {
        let mut call = std::pin::pin!(sender.send_request(get("/")));
        assert!(
            tokio::time::timeout(Duration::from_millis(100), call.as_mut())
                .await
                .is_err()
        );
        connections.freeze(false);
        assert_eq!(text(call.await.unwrap()).await, "HTTP/1.1 anonymous");
    }
    connections.reset_all();
    assert!(sender.send_request(get("/")).await.is_err());
    assert_eq!(
        late.read_u8().await.unwrap_err().kind(),
        io::ErrorKind::ConnectionReset
    );
}

#[tokio::test]
async fn listener_restarts_on_the_same_port() {
    let mut setup = Setup::new().await;
    let address = setup.listener.address();
    let mut sender = setup.http1(None).await;
    let mut watch = sender
        .send_request(get("/watch"))
        .await
        .unwrap()
        .into_body();
    watch.frame().await.unwrap().unwrap();
    setup.listener.suspend(Duration::from_secs(30)).await;
    assert!(
        watch.frame().await.is_none(),
        "an open stream ends in an orderly way"
    );
    assert!(TcpStream::connect(address).await.is_err());
    setup.listener.resume().await.unwrap();
    setup.listener.resume().await.unwrap();
    assert_eq!(setup.listener.address(), address);
    let mut sender = setup.http1(None).await;
    assert_eq!(
        text(sender.send_request(get("/")).await.unwrap()).await,
        "HTTP/1.1 anonymous"
    );
}

#[tokio::test]
async fn idle_client_does_not_block_shutdown() {
    let setup = Setup::new().await;
    let mut idle = TcpStream::connect(setup.listener.address()).await.unwrap();
    let established = setup.tls(None, "h2", "localhost").await.unwrap();
    let connections = setup.listener.connections().clone();
    connections.freeze(true);
    setup.listener.shut_down(Duration::from_millis(50)).await;
    assert!(connections.is_empty());
    assert!(matches!(idle.read(&mut [0; 1]).await, Ok(0) | Err(_)));
    drop(established);
}

#[tokio::test]
async fn client_without_a_handshake_is_dropped() {
    let settings = Settings {
        handshake_timeout: Duration::from_millis(50),
        ..Settings::default()
    };
    let setup = Setup::with(settings).await;
    let mut idle = TcpStream::connect(setup.listener.address()).await.unwrap();
    assert!(matches!(idle.read(&mut [0; 1]).await, Ok(0) | Err(_)));
    let mut plain = TcpStream::connect(setup.listener.address()).await.unwrap();
    plain
        .write_all(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP/1.1 200"));
}

#[tokio::test]
async fn connections_above_the_limit_wait() {
    let settings = Settings {
        max_connections: 1,
        ..Settings::default()
    };
    let mut setup = Setup::with(settings).await;
    let mut first = setup.http1(None).await;
    text(first.send_request(get("/")).await.unwrap()).await;
    {
        let mut second = std::pin::pin!(setup.tls(None, "http/1.1", "localhost"));
        assert!(
            tokio::time::timeout(Duration::from_millis(100), second.as_mut())
                .await
                .is_err()
        );
        setup.listener.connections().reset_all();
        second.await.unwrap();
    }
}
