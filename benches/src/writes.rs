//! Creates and patches per second: in process, over TLS, and by a real server.

use anyhow::Result;
use kube::Client;

use crate::load;
use crate::report::{Report, Target};
use crate::servers;

const TASKS: u32 = 16;
const NAMESPACE: &str = "bench-writes";

pub(crate) async fn measure(
    report: &mut Report,
    over_tls: &Client,
    real: Option<&Client>,
) -> Result<()> {
    let (sandbox, in_process) = servers::in_process()?;
    let here = rates(&in_process, 40_000).await?;
    sandbox.shutdown().await;
    let tls = rates(over_tls, 10_000).await?;
    let real = match real {
        Some(client) => Some(rates(client, 3_000).await?),
        None => None,
    };
    for (index, what) in ["creates", "patches"].into_iter().enumerate() {
        let (here, tls) = (here[index], tls[index]);
        report.add(
            format!("{what}, sandbox in process"),
            here,
            "per second",
            Target::None,
        );
        report.add(
            format!("{what}, sandbox over TLS"),
            tls,
            "per second",
            Target::None,
        );
        let Some(real) = real.map(|rates| rates[index]) else {
            continue;
        };
        report.add(
            format!("{what}, kube-apiserver and etcd"),
            real,
            "per second",
            Target::None,
        );
        let target = if index == 0 {
            Target::AtLeast(20.0)
        } else {
            Target::None
        };
        report.add(
            format!("{what}, in process / kube-apiserver"),
            here / real,
            "times",
            target,
        );
        report.add(
            format!("{what}, over TLS / kube-apiserver"),
            tls / real,
            "times",
            Target::None,
        );
    }
    Ok(())
}

async fn rates(client: &Client, count: u32) -> Result<[f64; 2]> {
    load::namespace(client, NAMESPACE).await?;
    // Warm-up: connections and code paths.
    load::create(client, NAMESPACE, count / 20, load::KILOBYTE, TASKS).await?;
    load::patch(client, NAMESPACE, count / 20, TASKS).await?;
    let namespace = format!("{NAMESPACE}-2");
    load::namespace(client, &namespace).await?;
    let creation = load::create(client, &namespace, count, load::KILOBYTE, TASKS).await?;
    let patching = load::patch(client, &namespace, count, TASKS).await?;
    Ok([load::rate(count, creation), load::rate(count, patching)])
}
