//! Sends reviews to webhooks and returns the raw responses.
//!
//! Calls use real sockets, so their timeouts require tokio's clock to run: a paused clock jumps to
//! the timeout whenever all tasks wait for the network.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use kopf_sandbox_store::sync::Mutex;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, InvalidMessage};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::configuration::{Target, Webhook, text};
use super::decision::RawResponse;
use super::endpoint::{self, Endpoint};
use super::resolving::{FindService, ServiceUrl, resolve};
use super::trust;

/// Maximum size of a response, in bytes: twice the largest object, in Base64.
const MAX_RESPONSE: usize = 8 << 20;
/// Maximum number of idle connections per webhook, and in all.
const MAX_IDLE_EACH: usize = 4;
const MAX_SERVERS: usize = 64;

type Sender = SendRequest<Full<Bytes>>;

/// A client for webhooks. It belongs to one sandbox; its connections are closed with it.
pub struct Caller {
    /// Services that are mapped to URLs.
    services: Vec<ServiceUrl>,
    connections: Mutex<HashMap<ConnectionKey, IdleConnections>>,
    tasks: TaskTracker,
    alive: CancellationToken,
}

/// The key of a connection: every input that its TLS and address depend on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ConnectionKey {
    host: String,
    port: u16,
    server_name: String,
    ca_bundle: Arc<[u8]>,
}

/// The TLS settings of a server and its idle connections.
struct IdleConnections {
    tls: Arc<ClientConfig>,
    idle: Vec<Sender>,
}

/// The server of a webhook and the timeout of a call.
#[derive(Debug, Clone)]
pub struct Remote {
    pub(super) target: Target,
    /// PEM; empty by default.
    pub(super) ca_bundle: Arc<[u8]>,
    pub(super) timeout: Duration,
}

impl Remote {
    /// Reads a `clientConfig`.
    pub fn read(client: &Value, timeout: Duration) -> Self {
        let bundle = STANDARD
            .decode(text(client.get("caBundle")))
            .unwrap_or_default();
        Self {
            target: Target::read(client),
            ca_bundle: bundle.into(),
            timeout,
        }
    }
}

/// A call without a response.
#[derive(Debug)]
pub enum CallFailure {
    /// The trusted certificates cannot be used.
    Client(String),
    /// The request was not sent, or its response was not received.
    Call(String),
}

/// The address and the TLS settings of a webhook.
#[derive(Debug)]
struct Route {
    key: ConnectionKey,
    /// The URL as in messages, with the timeout.
    shown: String,
    path_and_query: String,
    authority: String,
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller")
            .field("services", &self.services)
            .finish_non_exhaustive()
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.alive.cancel();
    }
}

impl Caller {
    /// `services` are reached at their URLs, because there is no cluster network. Other services are
    /// resolved as by the real server.
    pub fn new(services: Vec<ServiceUrl>) -> Self {
        Self {
            services,
            connections: Mutex::default(),
            tasks: TaskTracker::new(),
            alive: CancellationToken::new(),
        }
    }

    /// Sends a review. The error is the string that follows `failed calling webhook "…": `.
    ///
    /// Cancel-safe: dropping it closes the connection.
    pub(super) async fn call(
        &self,
        webhook: &Webhook,
        review: Bytes,
        find_service: FindService<'_>,
    ) -> Result<RawResponse, String> {
        let posted = self.post(&webhook.remote, review, find_service).await;
        posted.map_err(|failure| match failure {
            CallFailure::Client(why) => format!("could not get REST client: {why}"),
            CallFailure::Call(why) => format!("failed to call webhook: {why}"),
        })
    }

    /// Sends a review to a server and returns its response with any status.
    ///
    /// Cancel-safe: dropping it closes the connection.
    pub async fn post(
        &self,
        remote: &Remote,
        review: Bytes,
        find_service: FindService<'_>,
    ) -> Result<RawResponse, CallFailure> {
        let route = self.route(remote, find_service);
        let route = route.map_err(CallFailure::Call)?;
        let tls = self.tls(&route.key).map_err(CallFailure::Client)?;
        let exchange = self.exchange(&route, tls, review);
        let outcome = tokio::time::timeout(remote.timeout, exchange)
            .await
            .unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
        outcome.map_err(|why| CallFailure::Call(format!("Post {:?}: {why}", route.shown)))
    }

    fn route(&self, remote: &Remote, find_service: FindService<'_>) -> Result<Route, String> {
        let query = format!("timeout={}s", remote.timeout.as_secs());
        let key = |host: &str, port: u16, server_name: String| ConnectionKey {
            host: host.to_owned(),
            port,
            server_name,
            ca_bundle: Arc::clone(&remote.ca_bundle),
        };
        match &remote.target {
            Target::Url(url) => {
                let endpoint = Endpoint::parse(url)?;
                let port = endpoint.port.unwrap_or(443);
                Ok(Route {
                    key: key(&endpoint.host, port, endpoint.host.clone()),
                    shown: format!("{endpoint}?{query}"),
                    path_and_query: format!("{}?{query}", endpoint.clean_path()),
                    authority: endpoint.authority(),
                })
            }
            Target::Service {
                namespace,
                name,
                path,
                port,
            } => {
                // Certificates are verified for this name, wherever the server is.
                let server_name = format!("{name}.{namespace}.svc");
                let authority = format!("{server_name}:{port}");
                let shown = format!("https://{authority}{}?{query}", endpoint::clean(path));
                let mut mapped = self.services.iter().rev();
                let mapped =
                    mapped.find(|service| service.namespace == *namespace && service.name == *name);
                let (host, port, prefix) = if let Some(service) = mapped {
                    let url = &service.endpoint;
                    (url.host.clone(), url.port.unwrap_or(443), url.path.as_str())
                } else {
                    let service = find_service(namespace, name);
                    let resolved = resolve(service.as_ref(), name, *port);
                    let (host, port) = resolved.map_err(|why| format!("Post {shown:?}: {why}"))?;
                    (host, port, "")
                };
                let path = endpoint::clean(&format!("{prefix}/{path}"));
                Ok(Route {
                    key: key(&host, port, server_name),
                    shown,
                    path_and_query: format!("{path}?{query}"),
                    authority,
                })
            }
        }
    }

    fn tls(&self, key: &ConnectionKey) -> Result<Arc<ClientConfig>, String> {
        let mut connections = self.connections.lock();
        if let Some(known) = connections.get(key) {
            return Ok(Arc::clone(&known.tls));
        }
        let tls = trust::client_config(&key.ca_bundle)?;
        if connections.len() >= MAX_SERVERS {
            // This many servers occur only in tests that create webhooks all the time.
            connections.clear();
        }
        connections.insert(
            key.clone(),
            IdleConnections {
                tls: Arc::clone(&tls),
                idle: Vec::new(),
            },
        );
        Ok(tls)
    }

    async fn exchange(
        &self,
        route: &Route,
        tls: Arc<ClientConfig>,
        review: Bytes,
    ) -> Result<RawResponse, String> {
        let request = || {
            http::Request::post(&route.path_and_query)
                .header(HOST, &route.authority)
                .header(USER_AGENT, "kube-apiserver-admission")
                .header(ACCEPT, "application/json, */*")
                .header(CONTENT_TYPE, "application/json")
                .body(Full::new(review.clone()))
                .map_err(|error| error.to_string())
        };
        if let Some(mut sender) = self.take_idle(&route.key) {
            // The server may have closed the idle connection; then a new one is opened.
            if let Ok(response) = sender.send_request(request()?).await {
                return self.read(route, sender, response).await;
            }
        }
        let mut sender = self.connect(&route.key, tls).await?;
        let response = sender
            .send_request(request()?)
            .await
            .map_err(|error| http_text(&error))?;
        self.read(route, sender, response).await
    }

    async fn read(
        &self,
        route: &Route,
        mut sender: Sender,
        response: http::Response<hyper::body::Incoming>,
    ) -> Result<RawResponse, String> {
        let status = response.status().as_u16();
        let content_type = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        let body = Limited::new(response.into_body(), MAX_RESPONSE)
            .collect()
            .await
            .map_err(|error| match error.downcast_ref::<hyper::Error>() {
                Some(error) => format!(
                    "unexpected error when reading response body: {}",
                    http_text(error)
                ),
                None if error.is::<LengthLimitError>() => "the response is too large".to_owned(),
                None => error.to_string(),
            })?;
        if sender.ready().await.is_ok() {
            self.keep_idle(&route.key, sender);
        }
        Ok(RawResponse {
            status,
            content_type,
            body: body.to_bytes(),
        })
    }

    fn take_idle(&self, key: &ConnectionKey) -> Option<Sender> {
        let mut connections = self.connections.lock();
        let idle = &mut connections.get_mut(key)?.idle;
        idle.retain(|sender| !sender.is_closed());
        idle.pop()
    }

    fn keep_idle(&self, key: &ConnectionKey, sender: Sender) {
        let mut connections = self.connections.lock();
        if let Some(known) = connections.get_mut(key)
            && known.idle.len() < MAX_IDLE_EACH
        {
            known.idle.push(sender);
        }
    }

    async fn connect(&self, key: &ConnectionKey, tls: Arc<ClientConfig>) -> Result<Sender, String> {
        let stream = dial(&key.host, key.port).await?;
        // Messages are small. Failing to set the option is harmless.
        let _ = stream.set_nodelay(true);
        let name = ServerName::try_from(key.server_name.clone())
            .map_err(|_| format!("tls: invalid server name {:?}", key.server_name))?;
        let stream = TlsConnector::from(tls)
            .connect(name, stream)
            .await
            .map_err(|error| tls_text(&error))?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(|error| http_text(&error))?;
        let alive = self.alive.clone();
        self.tasks.spawn(async move {
            // Errors of the connection surface in the call that uses it.
            let _ = alive.run_until_cancelled(connection).await;
        });
        Ok(sender)
    }
}

async fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host((host, port))
        .await
        .map_err(|_| format!("dial tcp: lookup {host}: no such host"))?
        .collect();
    let mut failure = format!("dial tcp: lookup {host}: no such host");
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = format!("dial tcp {address}: connect: {}", io_text(&error)),
        }
    }
    Err(failure)
}

fn io_text(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        io::ErrorKind::HostUnreachable => "no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "connection timed out".to_owned(),
        io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
        _ => error.to_string(),
    }
}

fn tls_text(error: &io::Error) -> String {
    let inner = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match inner {
        None => io_text(error),
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(rejection))) => {
            format!("tls: failed to verify certificate: {}", rejection.0)
        }
        Some(rustls::Error::InvalidCertificate(error)) => {
            format!("tls: failed to verify certificate: x509: {error}")
        }
        Some(rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType)) => {
            "http: server gave HTTP response to HTTPS client".to_owned()
        }
        Some(rustls::Error::AlertReceived(alert)) => format!("remote error: tls: {alert:?}"),
        Some(other) => format!("tls: {other}"),
    }
}

fn http_text(error: &hyper::Error) -> String {
    let source = std::error::Error::source(error);
    match source.and_then(|source| source.downcast_ref::<io::Error>()) {
        Some(error) => io_text(error),
        None if error.is_incomplete_message() => "EOF".to_owned(),
        None => error.to_string(),
    }
}
