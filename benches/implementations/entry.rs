//! The benchmarked operator, with timestamps: it measures the time from the arrival of a new
//! object's watch line to the call of its handler. When stdin ends, it prints the times in
//! microseconds, one per line.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http::Response;
use http_body_util::BodyExt as _;
use kopf::prelude::*;
use kube::Config;
use kube::client::{ClientBuilder, DynBody};
use tokio::io::AsyncReadExt as _;
use tokio::time::Instant;
use tower::util::MapResponseLayer;

/// Only these objects are measured. Earlier ones are for warm-up.
const PREFIX: &str = r#""name":"object-"#;

/// Arrival times, and times to the handler. Shared by the connection and the handlers.
#[derive(Debug, Clone, Default)]
struct Arrivals(Arc<Mutex<Times>>);

#[derive(Debug, Default)]
struct Times {
    came: HashMap<String, Instant>,
    waited: Vec<Duration>,
}

impl Arrivals {
    /// Finds new objects in a chunk of data. Objects whose line is split before the name are
    /// skipped.
    fn note(&self, data: &Bytes) {
        let now = Instant::now();
        for line in data.split(|byte| *byte == b'\n') {
            if !line.starts_with(br#"{"type":"ADDED""#) {
                continue;
            }
            let line = String::from_utf8_lossy(line);
            let Some((_, number)) = line.split_once(PREFIX) else {
                continue;
            };
            let number: String = number.chars().take_while(char::is_ascii_digit).collect();
            let name = format!("object-{number}");
            self.with(|times| {
                times.came.entry(name).or_insert(now);
            });
        }
    }

    fn enter(&self, name: &str) {
        self.with(|times| {
            if let Some(came) = times.came.get(name) {
                times.waited.push(came.elapsed());
            }
        });
    }

    fn with<T>(&self, change: impl FnOnce(&mut Times) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[kopf::on::create("kopfexamples")]
async fn create_fn(Name(name): Name, State(arrivals): State<Arrivals>) -> kopf::Result<Value> {
    arrivals.enter(&name);
    Ok(json!({"message": "hello world"}))
}

#[tokio::main]
async fn main() -> Result<()> {
    let namespace = std::env::args().nth(1);
    let namespace = namespace.context("missing argument: the namespace")?;
    let arrivals = Arrivals::default();
    let eye = arrivals.clone();
    let eye = MapResponseLayer::new(move |response: Response<Box<DynBody>>| {
        let eye = eye.clone();
        response.map(|body| {
            body.map_frame(move |frame| {
                frame.data_ref().into_iter().for_each(|data| eye.note(data));
                frame
            })
        })
    });
    let client = ClientBuilder::try_from(Config::infer().await?)?;
    let client = client.with_layer(&eye).build();
    let operator = kopf::Operator::builder()
        .handlers_from_macros()
        .settings(|settings| settings.posting.enabled = false)
        .namespaces([namespace])
        .state(arrivals.clone())
        .build()?;
    let running = operator.start(client).await?;
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    running.stop().await?;
    let mut stdout = std::io::stdout().lock();
    for time in arrivals.with(|times| std::mem::take(&mut times.waited)) {
        writeln!(stdout, "{}", time.as_micros())?;
    }
    Ok(())
}
