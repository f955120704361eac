//! A client over real sockets: TLS as configured by a kubeconfig, HTTP/1.1 or HTTP/2.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::FutureExt as _;
use http::{Method, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{ApiResponse, Watch, request, with_json};

pub(crate) type Stream = TlsStream<TcpStream>;

/// The content of a kubeconfig.
#[derive(Debug, Clone)]
pub(crate) struct Kubeconfig {
    pub(crate) server: String,
    authority: Vec<u8>,
    certificate: Option<(Vec<u8>, Vec<u8>)>,
    token: Option<String>,
}

impl Kubeconfig {
    pub(crate) fn read(text: &str) -> Self {
        let config: Value = serde_saphyr::from_str(text).expect("YAML");
        let decoded = |value: &Value| {
            let text = value.as_str()?;
            Some(STANDARD.decode(text).expect("base64"))
        };
        let cluster = &config["clusters"][0]["cluster"];
        let user = &config["users"][0]["user"];
        let key = decoded(&user["client-key-data"]);
        Self {
            server: cluster["server"].as_str().expect("a server").to_owned(),
            authority: decoded(&cluster["certificate-authority-data"]).expect("an authority"),
            certificate: decoded(&user["client-certificate-data"]).zip(key),
            token: user["token"].as_str().map(str::to_owned),
        }
    }

    /// Returns the same server without credentials.
    pub(crate) fn anonymous(mut self) -> Self {
        self.certificate = None;
        self.token = None;
        self
    }

    fn address(&self) -> SocketAddr {
        let address = self.server.strip_prefix("https://").expect("https");
        address.parse().expect("an address with a port")
    }

    fn tls(&self) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(&self.authority).expect("a certificate"))
            .expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS versions")
            .with_root_certificates(roots);
        let mut config = match &self.certificate {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let certificate = CertificateDer::from_pem_slice(certificate).expect("PEM");
                let key = PrivateKeyDer::from_pem_slice(key).expect("PEM");
                builder
                    .with_client_auth_cert(vec![certificate], key)
                    .expect("a client certificate")
            }
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Arc::new(config)
    }

    /// Opens a new TLS stream.
    pub(crate) async fn stream(&self) -> io::Result<Stream> {
        let stream = TcpStream::connect(self.address()).await?;
        let name = ServerName::from(self.address().ip());
        TlsConnector::from(self.tls()).connect(name, stream).await
    }

    /// Opens a new connection.
    pub(crate) async fn connect(&self) -> io::Result<Connection> {
        let (sender, connection) = http1::handshake(TokioIo::new(self.stream().await?))
            .await
            .map_err(io::Error::other)?;
        let mut tasks = JoinSet::new();
        tasks.spawn(connection.map(drop));
        Ok(Connection {
            sender,
            token: self.token.clone(),
            _tasks: tasks,
        })
    }
}

/// One HTTP/1.1 connection.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: http1::SendRequest<Full<Bytes>>,
    token: Option<String>,
    _tasks: JoinSet<()>,
}

impl Connection {
    /// Sends a request. Returns the head and the unread body of the response.
    pub(crate) async fn open(
        &mut self,
        mut request: Request<Full<Bytes>>,
    ) -> hyper::Result<Response<Incoming>> {
        let headers = request.headers_mut();
        headers.insert("host", "localhost".parse().expect("a header"));
        if let Some(token) = &self.token {
            let value = format!("Bearer {token}").parse().expect("a header");
            headers.insert("authorization", value);
        }
        self.sender.ready().await?;
        self.sender.send_request(request).await
    }

    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> hyper::Result<ApiResponse> {
        let (parts, body) = self.open(request).await?.into_parts();
        Ok(ApiResponse {
            code: parts.status.as_u16(),
            headers: parts.headers,
            bytes: body.collect().await?.to_bytes(),
        })
    }

    pub(crate) async fn get(&mut self, path: &str) -> hyper::Result<ApiResponse> {
        self.send(request(Method::GET, path, None, "")).await
    }

    pub(crate) async fn create(
        &mut self,
        path: &str,
        object: &Value,
    ) -> hyper::Result<ApiResponse> {
        self.send(with_json(Method::POST, path, object)).await
    }

    /// Opens a watch, which occupies the connection.
    pub(crate) async fn watch(&mut self, path: &str) -> Watch<Incoming> {
        let response = self.open(request(Method::GET, path, None, "")).await;
        let response = response.expect("a response");
        assert_eq!(response.status(), 200, "{path}");
        Watch {
            body: response.into_body(),
            unread: Vec::new(),
        }
    }
}
