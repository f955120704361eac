//! Admission: how many reviews a trivial validating handler answers over TLS by connections that are kept
//! open, and how long each of them takes. Ours and the original, one after the other, with the same
//! certificate and the same client.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::contestants::{Contestant, beside, install_original, original};
use super::objects;
use crate::report::{Report, Target, percentile, tell};
use crate::servers::{self, Process};
use crate::usage::Usage;

const CONNECTIONS: u32 = 16;
const WARM_UP: Duration = Duration::from_secs(2);
const WINDOW: Duration = Duration::from_secs(10);
const LIMIT: Duration = Duration::from_secs(60);
/// As the issue of memory says: flat after so many.
const MILLION: u32 = 1_000_000;

/// What came out for one of them.
struct Figures {
    per_second: f64,
    median: f64,
    worst: f64,
}

pub(crate) async fn measure(report: &mut Report, contestants: &[Contestant]) -> Result<()> {
    let sandbox = Process::start().await?;
    objects::define(&sandbox.client().await?).await?;
    let bench = Bench::new(&sandbox.kubeconfig()).await?;
    let mut all = Vec::new();
    for contestant in [Contestant::Original, Contestant::Ours] {
        if !contestants.contains(&contestant) {
            continue;
        }
        tell(format_args!("Operators: reviews, {}…", contestant.name()));
        if contestant == Contestant::Original {
            install_original().await?;
        }
        let running = bench.start(contestant)?;
        bench.ready().await?;
        bench.review(Until::Time(WARM_UP)).await?;
        let times = bench.review(Until::Time(WINDOW)).await?;
        let count = u32::try_from(times.len())?;
        let figures = Figures {
            per_second: f64::from(count) / WINDOW.as_secs_f64(),
            median: percentile(times.clone(), 50),
            worst: percentile(times, 99),
        };
        add(report, contestant, &figures);
        if contestant == Contestant::Ours {
            let usage = Usage::of(running.id().context("it has ended")?);
            let before = usage.resident_megabytes()?;
            bench.review(Until::Count(MILLION)).await?;
            let after = usage.resident_megabytes()?;
            report.add(
                format!("memory after {MILLION} reviews, ours"),
                after,
                "MB",
                Target::None,
            );
            report.add(
                format!("its growth by {MILLION} reviews, ours"),
                after - before,
                "MB",
                Target::AtMost(1.0),
            );
        }
        all.push(figures);
    }
    if let [original, ours] = all.as_slice() {
        report.add(
            "reviews, ours / the original",
            ours.per_second / original.per_second,
            "times",
            Target::AtLeast(20.0),
        );
        report.add(
            "99 % of reviews, ours / the original",
            ours.worst / original.worst,
            "times",
            Target::AtMost(0.1),
        );
    }
    sandbox.stop().await
}

fn add(report: &mut Report, contestant: Contestant, figures: &Figures) {
    let name = contestant.name();
    let rows = [
        (
            format!("reviews by {CONNECTIONS} connections, {name}"),
            figures.per_second,
            "per second",
        ),
        (format!("half of them within, {name}"), figures.median, "ms"),
        (format!("99 % of them within, {name}"), figures.worst, "ms"),
    ];
    for (what, value, unit) in rows {
        report.add(what, value, unit, Target::None);
    }
}

/// How long to go on.
#[derive(Debug, Clone, Copy)]
enum Until {
    Time(Duration),
    Count(u32),
}

struct Bench {
    kubeconfig: PathBuf,
    folder: TempDir,
    client: Client,
}

/// Who asks. Clones ask the same server.
#[derive(Clone)]
struct Client {
    address: SocketAddr,
    connector: TlsConnector,
    review: Bytes,
}

impl Bench {
    async fn new(kubeconfig: &Path) -> Result<Self> {
        let folder = TempDir::new()?;
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        std::fs::write(folder.path().join("certificate"), made.cert.pem())?;
        std::fs::write(folder.path().join("key"), made.signing_key.serialize_pem())?;
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone())?;
        let config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Free until it is needed, most probably.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Ok(Self {
            kubeconfig: kubeconfig.to_owned(),
            folder,
            client: Client {
                address: listener.local_addr()?,
                connector: TlsConnector::from(Arc::new(config)),
                review: review().into(),
            },
        })
    }

    fn start(&self, contestant: Contestant) -> Result<Child> {
        let is_original = contestant == Contestant::Original;
        let program = if is_original {
            original()?
        } else {
            beside("bench-reviews")?
        };
        let mut command = Command::new(program);
        command.args(["run", "--standalone", "--all-namespaces", "--quiet"]);
        if is_original {
            command.arg(servers::root().join("benches/contestants/original_reviews.py"));
        }
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("BENCH_PORT", self.client.address.port().to_string())
            .env("BENCH_CERTIFICATE", self.folder.path().join("certificate"))
            .env("BENCH_KEY", self.folder.path().join("key"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("{} cannot be started", contestant.name()))
    }

    /// Waits until a review is answered.
    async fn ready(&self) -> Result<()> {
        let began = Instant::now();
        loop {
            let Err(error) = self.client.work(Until::Count(1)).await else {
                return Ok(());
            };
            if began.elapsed() > LIMIT {
                return Err(error.context("it does not answer in a minute"));
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Sends reviews by all connections at once. How long each of them has taken.
    async fn review(&self, until: Until) -> Result<Vec<Duration>> {
        let share = match until {
            Until::Count(count) => Until::Count(count / CONNECTIONS),
            time @ Until::Time(_) => time,
        };
        let mut workers = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let client = self.client.clone();
            workers.spawn(async move { client.work(share).await });
        }
        let mut all = Vec::new();
        while let Some(times) = workers.join_next().await {
            all.extend(times??);
        }
        Ok(all)
    }
}

impl Client {
    /// Sends reviews by one connection, one after another.
    async fn work(&self, until: Until) -> Result<Vec<Duration>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost")?;
        let stream = self.connector.connect(name, stream).await?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
        let mut driving = JoinSet::new();
        driving.spawn(connection);
        let began = Instant::now();
        let mut times = Vec::new();
        loop {
            let is_over = match until {
                Until::Time(limit) => began.elapsed() >= limit,
                Until::Count(count) => times.len() >= usize::try_from(count)?,
            };
            if is_over {
                return Ok(times);
            }
            let sent = Instant::now();
            self.ask(&mut sender).await?;
            times.push(sent.elapsed());
        }
    }

    async fn ask(&self, sender: &mut SendRequest<Full<Bytes>>) -> Result<()> {
        let request = Request::post("/check")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(self.review.clone()))?;
        sender.ready().await?;
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        let is_allowed = body.windows(7).any(|part| part == b"allowed");
        anyhow::ensure!(
            status == StatusCode::OK && is_allowed,
            "{status}: {}",
            String::from_utf8_lossy(&body)
        );
        Ok(())
    }
}

/// The creation of an object, as an API server asks about it.
fn review() -> Vec<u8> {
    let kind = json!({"group": "kopf.dev", "version": "v1", "kind": "KopfExample"});
    let resource = json!({"group": "kopf.dev", "version": "v1", "resource": "kopfexamples"});
    let mut object = objects::object("object", 1);
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.insert("namespace".to_owned(), json!("default"));
        let uid = json!("d3d2a2b4-0000-4000-8000-000000000001");
        metadata.insert("uid".to_owned(), uid);
    }
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": kind, "requestKind": kind,
            "resource": resource, "requestResource": resource,
            "name": "object-1", "namespace": "default", "operation": "CREATE",
            "userInfo": {"username": "somebody", "groups": ["system:authenticated"]},
            "object": object, "oldObject": null, "dryRun": false,
            "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
        },
    });
    review.to_string().into_bytes()
}
