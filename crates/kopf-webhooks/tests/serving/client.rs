//! A client similar to an API server: over TLS, by HTTP/1.1 or HTTP/2, on one connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kopf_core::admission::ClientConfig;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig as TlsConfig, RootCertStore, SupportedProtocolVersion};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::pki::{Identity, certificates};

/// The parameters of a connection.
#[derive(Clone)]
pub(crate) struct Connecting {
    config: ClientConfig,
    /// The name to verify; by default, that of the URL.
    pub(crate) name: Option<String>,
    /// The address to connect to; by default, loopback.
    pub(crate) address: &'static str,
    pub(crate) version: Option<&'static SupportedProtocolVersion>,
    pub(crate) is_http2: bool,
    pub(crate) identity: Option<Identity>,
}

impl Connecting {
    pub(crate) fn to(config: &ClientConfig) -> Self {
        Self {
            config: config.clone(),
            name: None,
            address: "127.0.0.1",
            version: None,
            is_http2: false,
            identity: None,
        }
    }

    pub(crate) fn by_http2(mut self) -> Self {
        self.is_http2 = true;
        self
    }

    pub(crate) fn with_identity(mut self, identity: &Identity) -> Self {
        self.identity = Some(identity.clone());
        self
    }

    pub(crate) fn with_name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    fn uri(&self) -> Uri {
        self.config.url.as_ref().unwrap().parse().unwrap()
    }

    /// Opens a TCP connection.
    pub(crate) async fn tcp(&self) -> io::Result<TcpStream> {
        let ip = self.address.parse().unwrap();
        let port = self.uri().port_u16().unwrap();
        TcpStream::connect(SocketAddr::new(ip, port)).await
    }

    /// Returns the TLS configuration, for several connections.
    pub(crate) fn tls_config(&self) -> Arc<TlsConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        let bundle = self
            .config
            .ca_bundle
            .as_ref()
            .expect("there is a CA bundle");
        for certificate in certificates(&STANDARD.decode(bundle).unwrap()) {
            roots.add(certificate).unwrap();
        }
        let versions: &[_] = match &self.version {
            Some(version) => &[*version],
            None => rustls::ALL_VERSIONS,
        };
        let builder = TlsConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            Some(identity) => builder
                .with_client_auth_cert(identity.chain(), identity.private_key())
                .unwrap(),
            None => builder.with_no_client_auth(),
        };
        if self.is_http2 {
            config.alpn_protocols = vec![b"h2".to_vec()];
        }
        Arc::new(config)
    }

    /// Opens a TLS connection.
    pub(crate) async fn tls(&self) -> io::Result<TlsStream<TcpStream>> {
        self.tls_by(self.tls_config()).await
    }

    pub(crate) async fn tls_by(&self, config: Arc<TlsConfig>) -> io::Result<TlsStream<TcpStream>> {
        let uri = self.uri();
        let name = match &self.name {
            Some(name) => name,
            None => uri.host().unwrap().trim_matches(['[', ']']),
        };
        let name = ServerName::try_from(name.to_owned()).unwrap();
        TlsConnector::from(config)
            .connect(name, self.tcp().await?)
            .await
    }

    /// Opens an HTTP connection.
    pub(crate) async fn connect(&self) -> io::Result<Client> {
        if self.uri().scheme_str() == Some("http") {
            return Client::over_http1(self.tcp().await?).await;
        }
        let stream = self.tls().await?;
        if self.is_http2 {
            Client::over_http2(stream).await
        } else {
            Client::over_http1(stream).await
        }
    }
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// An HTTP connection.
pub(crate) struct Client {
    sender: Sender,
    _tasks: JoinSet<()>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct ClientResponse {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl ClientResponse {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

impl Client {
    async fn over_http1<S>(stream: S) -> io::Result<Self>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let io = TokioIo::new(stream);
        let (sender, connection) = http1::handshake(io).await.map_err(io::Error::other)?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async {
            let _ = connection.await;
        });
        Ok(Self {
            sender: Sender::Http1(sender),
            _tasks: tasks,
        })
    }

    async fn over_http2<S>(stream: S) -> io::Result<Self>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let io = TokioIo::new(stream);
        let handshake = http2::handshake(TokioExecutor::new(), io);
        let (sender, connection) = handshake.await.map_err(io::Error::other)?;
        let mut tasks = JoinSet::new();
        tasks.spawn(async {
            let _ = connection.await;
        });
        Ok(Self {
            sender: Sender::Http2(sender),
            _tasks: tasks,
        })
    }

    /// Returns the same HTTP/2 connection, for a concurrent request.
    pub(crate) fn fork(&self) -> Self {
        let Sender::Http2(sender) = &self.sender else {
            panic!("HTTP/1.1 has one request at a time");
        };
        Self {
            sender: Sender::Http2(sender.clone()),
            _tasks: JoinSet::new(),
        }
    }

    /// Returns `true` if it can be used for another request.
    pub(crate) async fn is_usable(&mut self) -> bool {
        match &mut self.sender {
            Sender::Http1(sender) => sender.ready().await.is_ok(),
            Sender::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    pub(crate) async fn send(
        &mut self,
        mut request: Request<Full<Bytes>>,
    ) -> Result<ClientResponse, hyper::Error> {
        let response = match &mut self.sender {
            Sender::Http1(sender) => sender.send_request(request).await?,
            Sender::Http2(sender) => {
                if request.uri().authority().is_none() {
                    let uri = format!("https://operator.example{}", request.uri());
                    *request.uri_mut() = uri.parse().unwrap();
                }
                sender.send_request(request).await?
            }
        };
        let (head, body) = response.into_parts();
        let text = body.collect().await?.to_bytes();
        Ok(ClientResponse {
            status: head.status,
            headers: head.headers,
            text: String::from_utf8(text.to_vec()).unwrap(),
        })
    }

    pub(crate) async fn post(
        &mut self,
        path: &str,
        text: impl Into<Bytes>,
    ) -> Result<ClientResponse, hyper::Error> {
        let request = Request::post(path)
            .header("content-type", "application/json")
            .header("user-agent", "kube-apiserver-admission")
            .body(Full::new(text.into()));
        self.send(request.unwrap()).await
    }

    pub(crate) async fn review(
        &mut self,
        path: &str,
        review: &Value,
    ) -> Result<ClientResponse, hyper::Error> {
        self.post(path, review.to_string()).await
    }
}
