//! Start time of a sandbox, in this process and as a separate process.

use anyhow::{Result, ensure};
use http::Request;
use kube::Client;
use tokio::time::Instant;

use crate::report::{Report, Target, median};
use crate::servers::{self, Process};

const RUNS: usize = 20;

pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let began = Instant::now();
        let (sandbox, client) = servers::in_process()?;
        ready(&client).await?;
        times.push(began.elapsed());
        sandbox.shutdown().await;
    }
    report.add(
        format!("start in process to /readyz, median of {RUNS}"),
        median(times),
        "ms",
        Target::None,
    );

    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let began = Instant::now();
        let process = Process::start().await?;
        ready(&process.client().await?).await?;
        times.push(began.elapsed());
        process.stop().await?;
    }
    report.add(
        format!("process start to /readyz over TLS, median of {RUNS}"),
        median(times),
        "ms",
        Target::AtMost(50.0),
    );
    Ok(())
}

async fn ready(client: &Client) -> Result<()> {
    let request = Request::get("/readyz").body(Vec::new())?;
    let answer = client.request_text(request).await?;
    ensure!(answer == "ok", "/readyz returned {answer:?}");
    Ok(())
}
