//! From the start of the process to a `/readyz` that says ok, as another process sees it.

use anyhow::{Result, ensure};
use http::Request;
use tokio::time::Instant;

use crate::report::{Report, Target};
use crate::servers::Process;

const RUNS: usize = 20;

pub(crate) async fn measure(report: &mut Report) -> Result<()> {
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let began = Instant::now();
        let process = Process::start().await?;
        let client = process.client().await?;
        let answer = client
            .request_text(Request::get("/readyz").body(Vec::new())?)
            .await?;
        times.push(began.elapsed().as_secs_f64() * 1000.0);
        ensure!(answer == "ok", "/readyz says {answer:?}");
        process.stop().await?;
    }
    times.sort_by(f64::total_cmp);
    let median = times.get(RUNS / 2).copied().unwrap_or(f64::NAN);
    report.add(
        format!("process start to /readyz over TLS, median of {RUNS}"),
        median,
        "ms",
        Target::AtMost(50.0),
    );
    Ok(())
}
