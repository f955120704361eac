//! Lists of many objects as JSON, tables and partial metadata: CPU, memory, and the waiting of small
//! requests meanwhile; and the start of a sandbox with as many objects in its folder.

use std::time::Duration;

use anyhow::{Result, ensure};
use http::Request;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::load;
use crate::report::{Report, Target};
use crate::servers::Process;

const NAMESPACE: &str = "bench-lists";
const OBJECTS: u32 = 100_000;
const TASKS: u32 = 16;
/// The pause between two small requests.
const PAUSE: Duration = Duration::from_millis(5);

/// The forms of a list, by media type.
const FORMS: [(&str, &str); 3] = [
    ("objects", "application/json"),
    ("a table", "application/json;as=Table;v=v1;g=meta.k8s.io"),
    (
        "partial metadata",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    ),
];

pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    let data = TempDir::new()?;
    let process = Process::start_with_data(data.path()).await?;
    let client = process.client().await?;
    load::namespace(&client, NAMESPACE).await?;
    load::create(&client, NAMESPACE, OBJECTS, load::KILOBYTE, TASKS).await?;
    let usage = process.usage()?;
    for (form, accept) in FORMS {
        usage.forget_peak()?;
        let (memory, cpu) = (usage.resident_megabytes()?, usage.cpu()?);
        let waited = longest_small_request(&client, accept).await?;
        let used = usage.cpu()?.saturating_sub(cpu).as_secs_f64();
        let name = |what: &str| format!("{what}, list of {OBJECTS} as {form}");
        report.add(name("CPU"), used, "s", Target::None);
        let grown = usage.peak_megabytes()? - memory;
        report.add(name("added memory"), grown, "MB", Target::AtMost(100.0));
        let waited = waited.as_secs_f64() * 1000.0;
        report.add(
            name("longest small request"),
            waited,
            "ms",
            Target::AtMost(100.0),
        );
    }
    process.stop().await?;

    let process = Process::start_with_data(data.path()).await?;
    let cpu = process.usage()?.cpu()?.as_secs_f64();
    let name = format!("CPU of a start with {OBJECTS} objects in --data");
    report.add(name, cpu, "s", Target::AtMost(2.0));
    process.stop().await
}

/// Lists all objects, and returns the time of the longest small request meanwhile.
async fn longest_small_request(client: &Client, accept: &str) -> Result<Duration> {
    let listing = list(client, accept);
    tokio::pin!(listing);
    let mut longest = Duration::ZERO;
    loop {
        tokio::select! {
            listed = &mut listing => {
                let bytes = listed?;
                ensure!(bytes > 1_000_000, "the list has only {bytes} bytes");
                return Ok(longest);
            }
            time = small(client) => longest = longest.max(time?),
        }
    }
}

/// Reads one object after a pause, and returns the time of the request.
async fn small(client: &Client) -> Result<Duration> {
    sleep(PAUSE).await;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/object-1");
    let began = Instant::now();
    client
        .request_text(Request::get(path).body(Vec::new())?)
        .await?;
    Ok(began.elapsed())
}

/// Returns the number of bytes of a list.
async fn list(client: &Client, accept: &str) -> Result<usize> {
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps");
    let request = Request::get(path).header("accept", accept);
    let mut body = client.send(request.body(Body::empty())?).await?.into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame?.data_ref().map_or(0, bytes::Bytes::len);
    }
    Ok(bytes)
}
