//! A client that sends the same patches without watching: the upper bound for the throughput of
//! operators.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};
use http::Request;
use http::header::CONTENT_TYPE;
use kube::{Client, Config};
use tokio::task::JoinSet;

/// Number of connections with one request in flight each: the same number of requests as of the
/// operator.
const CONNECTIONS: usize = 96;

/// Patches that the original sends for the objects of this bench.
const HANDLED: &str = r#"{"metadata":{"annotations":{"kopf.zalando.org/last-handled-configuration":
"{\"metadata\":{\"labels\":{\"somelabel\":\"somevalue\"},\"annotations\":{\"someannotation\":\"somevalue\"}},\"spec\":{\"duration\":\"1m\",\"field\":\"value\",\"items\":[\"item1\",\"item2\"]}}\n"}}}"#;
const RESULT: &str = r#"{"status":{"create_fn":{"message":"hello world"}}}"#;

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let namespace = args.next().context("missing argument 1: the namespace")?;
    let count = args
        .next()
        .context("missing argument 2: the number of objects")?;
    let count: u32 = count
        .parse()
        .context("invalid argument 2: must be a number")?;

    let mut config = Config::infer().await?;
    // Retries would distort the measurement.
    config.default_retry = false;
    let client = Client::try_from(config)?;
    let next = Arc::new(AtomicU32::new(0));
    let mut running = JoinSet::new();
    for _ in 0..CONNECTIONS {
        running.spawn(work(
            client.clone(),
            namespace.clone(),
            count,
            Arc::clone(&next),
        ));
    }
    while let Some(result) = running.join_next().await {
        result??;
    }
    // The benchmark reads the usage of the running process.
    std::future::pending().await
}

async fn work(client: Client, namespace: String, count: u32, next: Arc<AtomicU32>) -> Result<()> {
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if number >= count {
            return Ok(());
        }
        let path = format!("/apis/kopf.dev/v1/namespaces/{namespace}/kopfexamples/object-{number}");
        patch(&client, &path, HANDLED).await?;
        patch(&client, &format!("{path}/status"), RESULT).await?;
    }
}

async fn patch(client: &Client, path: &str, body: &'static str) -> Result<()> {
    let request = Request::patch(path)
        .header(CONTENT_TYPE, "application/merge-patch+json")
        .body(body.as_bytes().to_vec())?;
    let answer = client.request_text(request).await;
    answer.with_context(|| format!("PATCH {path}"))?;
    Ok(())
}
