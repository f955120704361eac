//! Who asks: some connections that are kept open, with one request at a time on each of them.
//!
//! It shares processors with the server, so it does no more than what it takes to know that all answers
//! are right, and all of it on one thread.

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

use super::answer::parse;
use super::question::Question;

pub(super) const CONNECTIONS: u32 = 16;
/// After so many failures, each on a new connection, the figures would be worth nothing.
const HOPELESS: usize = 10;
/// How long one answer can take.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a number of reviews can take.
const LONG: Duration = Duration::from_secs(600);
/// Larger than any answer.
const BUFFER: usize = 4 * 1024;

/// How long to go on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Until {
    Time(Duration),
    Count(u32),
}

/// What has come of it.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// How long each review has taken that was answered as it should be.
    pub(super) times: Vec<Duration>,
    /// The others, each with its reason.
    pub(super) failures: Vec<anyhow::Error>,
}

/// Clones ask the same server.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) address: SocketAddr,
    connector: TlsConnector,
    question: Question,
}

/// An open connection.
struct Connection {
    stream: TlsStream<TcpStream>,
    /// What has come and is not read yet.
    buffer: Vec<u8>,
}

impl Client {
    /// For a server that is not there yet, at an address that nobody else has.
    pub(super) async fn new(authority: CertificateDer<'static>) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        roots.add(authority)?;
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Free until it is needed, most probably.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Ok(Self {
            address: listener.local_addr()?,
            connector: TlsConnector::from(Arc::new(config)),
            question: Question::new()?,
        })
    }

    /// Has one review answered.
    pub(super) async fn try_once(&self) -> Result<()> {
        let mut connection = self.connect().await?;
        let mut question = self.question.clone();
        timeout(LIMIT, connection.ask(&mut question)).await??;
        Ok(())
    }

    /// Sends reviews by all connections at once.
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
            working.context("the reviews do not come to their end")?
        });
        asking.await?
    }

    async fn work_all(self, until: Until) -> Result<Outcome> {
        let share = match until {
            Until::Count(count) => Until::Count(count / CONNECTIONS),
            time @ Until::Time(_) => time,
        };
        let mut workers = JoinSet::new();
        for _ in 0..CONNECTIONS {
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

    /// Sends reviews by one connection, one after another; by another one if it breaks.
    async fn work(&self, until: Until) -> Result<Outcome> {
        let mut question = self.question.clone();
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
            let asked = open.ask(&mut question).await;
            now = Instant::now();
            match asked {
                Ok(is_kept) => {
                    outcome.times.push(now - sent);
                    connection = is_kept.then_some(open);
                }
                Err(error) if outcome.failures.len() < HOPELESS => {
                    outcome.failures.push(error);
                }
                Err(error) => return Err(error.context("there are too many failures")),
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
    /// Has one review answered; says whether the connection can be used again.
    async fn ask(&mut self, question: &mut Question) -> Result<bool> {
        self.stream.write_all(question.next()?).await?;
        self.stream.flush().await?;
        loop {
            let Some(answer) = parse(&self.buffer)? else {
                let read = self.stream.read_buf(&mut self.buffer).await?;
                ensure!(read > 0, "the connection has ended before the answer");
                continue;
            };
            let text = || String::from_utf8_lossy(&answer.body).into_owned();
            ensure!(answer.status == 200, "{}: {}", answer.status, text());
            question.check(&answer.body).with_context(text)?;
            let is_extra = answer.size != self.buffer.len();
            ensure!(!is_extra, "there is more than the answer");
            let is_kept = answer.is_kept;
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

    /// Answers these in turn, to whoever asks; says how many connections there were.
    async fn serve(
        listener: TcpListener,
        acceptor: TlsAcceptor,
        answers: &[(&str, &str, bool)],
    ) -> u32 {
        let mut answers = answers.iter();
        let mut connections = 0;
        while answers.len() > 0 {
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
                let (status, header, is_allowed) = answers.next().unwrap();
                let body = format!(
                    r#"{{"response": {{"uid": "705ab4f5{uid}", "allowed": {is_allowed}}}}}"#
                );
                let length = body.len();
                let answer =
                    format!("HTTP/1.1 {status}\r\n{header}content-length: {length}\r\n\r\n{body}");
                stream.write_all(answer.as_bytes()).await.unwrap();
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
        let answers = [
            ("200 OK", "", true),
            ("500 Oops", "", true),
            ("200 OK", "", false),
            ("200 OK", "connection: close\r\n", true),
            ("200 OK", "", true),
            ("200 OK", "", true),
        ];
        let serving = serve(listener, acceptor(&made), &answers);
        let (outcome, connections) = tokio::join!(client.work(Until::Count(6)), serving);
        let outcome = outcome.unwrap();
        assert_eq!((outcome.times.len(), connections), (4, 4));
        let failures: Vec<_> = outcome.failures.iter().map(|e| format!("{e:#}")).collect();
        assert!(failures[0].starts_with("500: {"), "{failures:?}");
        assert!(failures[1].ends_with("it is not allowed"), "{failures:?}");
        assert_eq!(failures.len(), 2);
    }
}
