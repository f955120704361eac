//! Test servers: with and without TLS, and a proxy.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// A certificate authority.
pub(super) struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key as PEM.
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: String,
    parts: (rcgen::Certificate, KeyPair),
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    pub(super) fn sign(&self, name: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        Identity {
            certificate: certificate.pem(),
            key: key.serialize_pem(),
            parts: (certificate, key),
        }
    }

    /// Returns the TLS of a server with a certificate of this authority. Client certificates are
    /// optional.
    fn acceptor(&self) -> TlsAcceptor {
        self.acceptor_of(&[])
    }

    /// Returns the TLS of a server that offers these protocols.
    pub(super) fn acceptor_of(&self, protocols: &[&str]) -> TlsAcceptor {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (certificate, key) = self.sign("127.0.0.1").parts;
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots))
            .allow_unauthenticated()
            .build()
            .unwrap();
        let mut config = rustls::ServerConfig::builder()
            .with_client_cert_verifier(verifier)
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        config.alpn_protocols = protocols
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect();
        TlsAcceptor::from(Arc::new(config))
    }
}

/// The token that the server rejects.
pub(super) const REFUSED: &str = "refused";

/// A listener that is closed on drop.
pub(super) struct Listening {
    pub(super) address: SocketAddr,
    /// The number of accepted connections.
    pub(super) accepted: Arc<AtomicUsize>,
    /// The number of open connections.
    pub(super) open: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

/// Starts a server that returns the path and the credentials of requests.
pub(super) async fn mirror(authority: Option<&Authority>) -> Listening {
    let acceptor = authority.map(Authority::acceptor);
    listen(move |socket| {
        let acceptor = acceptor.clone();
        async move {
            match acceptor {
                None => serve(socket, false).await,
                Some(acceptor) => {
                    if let Ok(stream) = acceptor.accept(socket).await {
                        let known = stream.get_ref().1.peer_certificates().is_some();
                        serve(stream, known).await;
                    }
                }
            }
        }
    })
    .await
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, known: bool) {
    let answer = move |request: Request<Incoming>| async move {
        let header = |name: &str| {
            let value = request.headers().get(name)?;
            value.to_str().ok().map(str::to_owned)
        };
        let said = json!({
            "path": request.uri().to_string(),
            "authorization": header("authorization"),
            "impersonated": header("impersonate-user"),
            "certificate": known,
        });
        let code = if said["authorization"] == format!("Bearer {REFUSED}") {
            401
        } else {
            200
        };
        let answer = Response::builder().status(code);
        answer.body(Full::new(Bytes::from(said.to_string())))
    };
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service_fn(answer))
        .await;
}

/// Starts a server that accepts connections and sends nothing.
pub(super) async fn silent() -> Listening {
    listen(|socket| async move {
        let _keep = socket;
        std::future::pending::<()>().await;
    })
    .await
}

/// Starts an HTTP proxy with the credentials `user:pass`, which always connects to the same server.
pub(super) async fn proxy(target: SocketAddr) -> Listening {
    listen(move |mut socket| async move {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let Ok(byte) = socket.read_u8().await else {
                return;
            };
            head.push(byte);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let known = head.starts_with("connect ")
            && head.contains("\r\nproxy-authorization: basic dxnlcjpwyxnz\r\n");
        let answer = if known { "200 OK" } else { "407 Who are you" };
        let answer = format!("HTTP/1.1 {answer}\r\n\r\n");
        socket.write_all(answer.as_bytes()).await.unwrap();
        if known {
            let mut server = TcpStream::connect(target).await.unwrap();
            let _ = copy_bidirectional(&mut socket, &mut server).await;
        }
    })
    .await
}

/// Starts a listener that serves each connection in its own task.
pub(super) async fn listen<F>(serve: impl Fn(TcpStream) -> F + Send + 'static) -> Listening
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (accepted, open) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (all, current) = (Arc::clone(&accepted), Arc::clone(&open));
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            all.fetch_add(1, Ordering::Relaxed);
            current.fetch_add(1, Ordering::Relaxed);
            let (serving, current) = (serve(socket), Arc::clone(&current));
            connections.spawn(async move {
                serving.await;
                current.fetch_sub(1, Ordering::Relaxed);
            });
        }
    });
    Listening {
        address,
        accepted,
        open,
        _tasks: tasks,
    }
}
