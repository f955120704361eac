//! The client: keep-alive connections with one request in flight each.
//!
//! It shares CPUs with the server, so it runs on one thread and only verifies the responses.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::request::ReviewRequest;
use super::response::parse;

pub(super) const CONNECTIONS: u32 = 16;
/// Number of failures after which the measurement is aborted.
const MAX_FAILURES: usize = 10;
/// Time limit of one response.
const LIMIT: Duration = Duration::from_secs(60);
/// Time limit of a fixed number of reviews.
const LONG: Duration = Duration::from_secs(600);
/// Larger than any response.
const BUFFER: usize = 4 * 1024;

/// The end of a measurement.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    Time(Duration),
    Count(u32),
}

/// The result of a measurement.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The times of successful reviews.
    pub(super) times: Vec<Duration>,
    /// The errors of failed reviews.
    pub(super) failures: Vec<anyhow::Error>,
}

/// A client of one server. Clones use the same server.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) address: SocketAddr,
    connector: TlsConnector,
    connections: u32,
    request: ReviewRequest,
}

/// An open connection.
struct Connection {
    stream: TlsStream<TcpStream>,
    /// Received bytes that are not parsed yet.
    buffer: Vec<u8>,
}

impl Client {
    /// Reserves an address for a server that is not started yet.
    pub(super) async fn new(authority: CertificateDer<'static>) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(authority)?;
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        // The port is most likely free until the server binds it.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Ok(Self {
            address: listener.local_addr()?,
            connector: TlsConnector::from(Arc::new(config)),
            connections: CONNECTIONS,
            request: ReviewRequest::new()?,
        })
    }

    /// Returns a client that sends another request by this many connections.
    pub(super) fn with_request(&self, request: ReviewRequest, connections: u32) -> Self {
        Self {
            connections,
            request,
            ..self.clone()
        }
    }

    /// Sends one review on a new connection.
    pub(super) async fn try_once(&self) -> Result<()> {
        let mut connection = self.connect().await?;
        let mut request = self.request.clone();
        timeout(LIMIT, connection.send(&mut request)).await??;
        Ok(())
    }

    /// Sends reviews on all connections concurrently.
    pub(super) async fn review(&self, until: Until) -> Result<Outcome> {
        let client = self.clone();
        let asking = spawn_blocking(move || {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let limit = match until {
                Until::Time(time) => time + LIMIT,
                Until::Count(_) => LONG,
            };
            let working = async { timeout(limit, client.work_all(until)).await };
            let working = runtime.block_on(working);
            working.with_context(|| format!("the reviews have not finished after {limit:?}"))?
        });
        asking.await?
    }

    async fn work_all(self, until: Until) -> Result<Outcome> {
        let share = match until {
            Until::Count(count) => Until::Count(count / self.connections),
            time @ Until::Time(_) => time,
        };
        let mut workers = JoinSet::new();
        for _ in 0..self.connections {
            let client = self.clone();
            workers.spawn(async move { client.work(share).await });
        }
        let mut all = Outcome::default();
        while let Some(outcome) = workers.join_next().await {
            let outcome = outcome??;
            all.times.extend(outcome.times);
            all.failures.extend(outcome.failures);
        }
        Ok(all)
    }

    /// Sends reviews on one connection, one after another. Reconnects if it breaks.
    async fn work(&self, until: Until) -> Result<Outcome> {
        let mut request = self.request.clone();
        let mut outcome = Outcome::default();
        let mut connection = None;
        let began = Instant::now();
        let mut now = began;
        loop {
            let done = outcome.times.len() + outcome.failures.len();
            let is_over = match until {
                Until::Time(limit) => now - began >= limit,
                Until::Count(count) => done >= usize::try_from(count)?,
            };
            if is_over {
                return Ok(outcome);
            }
            let mut open = match connection.take() {
                Some(open) => open,
                None => self.connect().await?,
            };
            let sent = Instant::now();
            let result = open.send(&mut request).await;
            now = Instant::now();
            match result {
                Ok(is_kept) => {
                    outcome.times.push(now - sent);
                    connection = is_kept.then_some(open);
                }
                Err(error) if outcome.failures.len() < MAX_FAILURES => {
                    outcome.failures.push(error);
                }
                Err(error) => return Err(error.context("too many failures")),
            }
        }
    }

    async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost")?;
        Ok(Connection {
            stream: self.connector.connect(name, stream).await?,
            buffer: Vec::with_capacity(BUFFER),
        })
    }
}

impl Connection {
    /// Sends one review. Returns `true` if the connection can be reused.
    async fn send(&mut self, request: &mut ReviewRequest) -> Result<bool> {
        self.stream.write_all(request.next()?).await?;
        self.stream.flush().await?;
        loop {
            let Some(response) = parse(&self.buffer)? else {
                let read = self.stream.read_buf(&mut self.buffer).await?;
                ensure!(read > 0, "the connection was closed before the response");
                continue;
            };
            let text = || String::from_utf8_lossy(&response.body).into_owned();
            ensure!(response.status == 200, "{}: {}", response.status, text());
            request.check(&response.body).with_context(text)?;
            let is_extra = response.size != self.buffer.len();
            ensure!(!is_extra, "unexpected bytes after the response");
            let is_kept = response.is_kept;
            self.buffer.clear();
            return Ok(is_kept);
        }
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
    use tokio_rustls::TlsAcceptor;
    use tokio_rustls::rustls::ServerConfig;
    use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

    use super::*;

    fn acceptor(made: &CertifiedKey<KeyPair>) -> TlsAcceptor {
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let config = ServerConfig::builder()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    /// Sends these responses in turn. Returns the number of connections.
    async fn serve(
        listener: TcpListener,
        acceptor: TlsAcceptor,
        responses: &[(&str, &str, bool)],
    ) -> u32 {
        let mut responses = responses.iter();
        let mut connections = 0;
        while responses.len() > 0 {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = acceptor.accept(stream).await.unwrap();
            connections += 1;
            let mut request = Vec::new();
            while stream
                .read_buf(&mut request)
                .await
                .is_ok_and(|read| read > 0)
            {
                let text = String::from_utf8(request.clone()).unwrap();
                if !text.ends_with("}}") {
                    continue;
                }
                request.clear();
                let uid = text.split("705ab4f5").nth(1).unwrap();
                let uid = uid.split('"').next().unwrap();
                let (status, header, is_allowed) = responses.next().unwrap();
                let body = format!(
                    r#"{{"response": {{"uid": "705ab4f5{uid}", "allowed": {is_allowed}}}}}"#
                );
                let length = body.len();
                let response =
                    format!("HTTP/1.1 {status}\r\n{header}content-length: {length}\r\n\r\n{body}");
                stream.write_all(response.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
            }
        }
        connections
    }

    #[tokio::test]
    async fn failures_are_counted_and_connections_renewed() {
        let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let mut client = Client::new(made.cert.der().clone()).await.unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        client.address = listener.local_addr().unwrap();
        let responses = [
            ("200 OK", "", true),
            ("500 Oops", "", true),
            ("200 OK", "", false),
            ("200 OK", "connection: close\r\n", true),
            ("200 OK", "", true),
            ("200 OK", "", true),
        ];
        let serving = serve(listener, acceptor(&made), &responses);
        let (outcome, connections) = tokio::join!(client.work(Until::Count(6)), serving);
        let outcome = outcome.unwrap();
        assert_eq!((outcome.times.len(), connections), (4, 4));
        let failures: Vec<_> = outcome.failures.iter().map(|e| format!("{e:#}")).collect();
        assert!(failures[0].starts_with("500: {"), "{failures:?}");
        assert!(
            failures[1].ends_with("the object is denied"),
            "{failures:?}"
        );
        assert_eq!(failures.len(), 2);
    }
}
