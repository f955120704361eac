//! Replicas that divide the objects, on sandboxes with and without server-side sharding: the cost
//! per replica, and the throughput with a slow handler.
//!
//! The objects of the first measurement have the diff-base of a finished handling, so that the
//! replicas only receive and keep them. They are created after the shards are divided.

pub(super) mod group;
mod proxy;

use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::json;

use self::group::{Cluster, Group, Sharding};
use super::handled::Handled;
use super::{CREATORS, objects};
use crate::load;
use crate::report::{Report, Target, print_status};

/// Numbers of replicas.
const REPLICAS: [usize; 3] = [1, 2, 4];

/// Duration of the handler, in milliseconds.
const WAIT: u32 = 100;

/// The cost of one replica.
#[derive(Debug, Clone, Copy)]
struct Cost {
    cpu: Duration,
    memory: f64,
    received: f64,
}

pub(crate) async fn measure(report: &mut Report, quiet: u32, handled: u32) -> Result<()> {
    for replicas in REPLICAS {
        for sharding in [Sharding::ByServer, Sharding::ByReplicas] {
            // A single replica has all shards and filters nothing.
            if replicas == 1 && sharding == Sharding::ByReplicas {
                continue;
            }
            print_status(format_args!(
                "Replicas: {quiet} objects, {replicas} replicas, {sharding}…"
            ));
            let costs = costs(replicas, sharding, quiet).await;
            let costs = costs.with_context(|| format!("{replicas} replicas, {sharding}"))?;
            add(report, &costs, sharding, quiet);
        }
    }
    for replicas in REPLICAS {
        print_status(format_args!(
            "Replicas: {handled} objects with a handler of {WAIT} ms, {replicas} replicas…"
        ));
        let rate = throughput(replicas, handled).await?;
        report.add(
            format!("throughput, handler of {WAIT} ms, {replicas} replicas"),
            rate,
            "objects per second",
            Target::None,
        );
    }
    Ok(())
}

/// Returns the costs of all replicas, from the division of shards to the arrival of all objects.
async fn costs(replicas: usize, sharding: Sharding, count: u32) -> Result<Vec<Cost>> {
    let cluster = Cluster::start(sharding).await?;
    let group = Group::start(&cluster, replicas, None).await?;
    group.settle().await?;
    let before = group.counters()?;
    create_handled(&cluster, count).await?;
    group.settle().await?;
    let after = group.counters()?;
    let costs = before.iter().zip(&after).map(|(before, after)| Cost {
        cpu: after.cpu.saturating_sub(before.cpu),
        memory: after.memory,
        received: after.received - before.received,
    });
    let costs = costs.collect();
    group.stop().await?;
    cluster.stop().await;
    Ok(costs)
}

/// Adds the averages of the replicas. All shards have about the same size.
fn add(report: &mut Report, costs: &[Cost], sharding: Sharding, objects: u32) {
    let replicas = costs.len();
    let mean = |value: fn(&Cost) -> f64| {
        let count = u32::try_from(replicas).map_or(1.0, f64::from);
        costs.iter().map(value).sum::<f64>() / count
    };
    let place = match replicas {
        1 => "1 replica".to_owned(),
        _ => format!("{replicas} replicas, {sharding}"),
    };
    let rows = [
        ("CPU", mean(|cost| cost.cpu.as_secs_f64()), "s"),
        ("memory", mean(|cost| cost.memory), "MB"),
        ("received", mean(|cost| cost.received), "MB"),
    ];
    for (what, value, unit) in rows {
        let what = format!("{what} per replica, {objects} objects, {place}");
        report.add(what, value, unit, Target::None);
    }
}

/// Creates objects with the diff-base of a finished handling.
pub(super) async fn create_handled(cluster: &Cluster, count: u32) -> Result<()> {
    let path = objects::path(group::NAMESPACE);
    load::repeat(cluster.client(), count, CREATORS, move |client, number| {
        let path = path.clone();
        async move {
            let mut object = objects::object("quiet", number);
            let mut essence = json!({"spec": object["spec"], "metadata": object["metadata"]});
            if let Some(metadata) = essence["metadata"].as_object_mut() {
                metadata.remove("name");
            }
            let key = "kopf.zalando.org/last-handled-configuration";
            object["metadata"]["annotations"][key] = json!(format!("{essence}\n"));
            load::post(&client, &path, &object).await
        }
    })
    .await
    .context("cannot create objects")?;
    Ok(())
}

/// Returns the handled objects per second, without the first and the last ones.
async fn throughput(replicas: usize, count: u32) -> Result<f64> {
    let cluster = Cluster::start(Sharding::ByServer).await?;
    let group = Group::start(&cluster, replicas, Some(WAIT)).await?;
    group.settle().await?;
    let client = cluster.client();
    let handled = Handled::watch(client, group::NAMESPACE, "object", count).await?;
    objects::create(client, group::NAMESPACE, "object", count, CREATORS).await?;
    let times = handled.times().await?;
    group.stop().await?;
    cluster.stop().await;
    let (first, last) = (times.len() / 20, times.len() * 19 / 20);
    let (Some(began), Some(ended)) = (times.get(first), times.get(last)) else {
        anyhow::bail!("too few objects to measure");
    };
    Ok(load::rate(u32::try_from(last - first)?, *ended - *began))
}
