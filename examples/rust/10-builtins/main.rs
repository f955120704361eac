//! Built-in resources: deletes pods that are older than half a minute, except for system pods.
//!
//! ```console
//! cargo run --bin 10-builtins -- run --sandbox
//! kubectl run sleeper --image busybox -- sleep 600
//! ```
//!
//! On a real cluster, restrict it to a namespace (`-n playground`): it deletes all pods there.

use std::time::Duration;

use kopf::jiff::Timestamp;
use kopf::k8s_openapi::api::core::v1::Pod;
use kopf::kube::Api;
use kopf::kube::api::DeleteParams;
use kopf::prelude::*;
use kopf::{Body, Namespace, Now};

/// Excludes system pods, whose deletion would break the cluster.
fn is_not_of_the_system(Namespace(namespace): Namespace) -> bool {
    !namespace.starts_with("kube-")
}

#[kopf::on::create("pods", when = is_not_of_the_system)]
#[kopf::on::resume("pods", when = is_not_of_the_system)]
async fn remove_when_old(
    body: Body,
    Name(name): Name,
    Now(now): Now,
    pods: Api<Pod>,
) -> kopf::Result<()> {
    let created: Timestamp = body.creation_timestamp().unwrap_or_default().parse()?;
    let age = Duration::try_from(now.duration_since(created)).unwrap_or_default();
    let left = max_age()?.saturating_sub(age);
    if !left.is_zero() {
        return Err(kopf::temporary("the pod is too young").delay(left));
    }
    pods.delete(&name, &DeleteParams::default()).await?;
    tracing::info!("The pod is too old and is deleted.");
    Ok(())
}

/// Returns the value of `MAX_AGE` in seconds, or 30 seconds.
fn max_age() -> kopf::Result<Duration> {
    let text = std::env::var("MAX_AGE").unwrap_or_else(|_| "30".to_owned());
    let seconds = text.parse();
    let seconds = seconds.map_err(|error| kopf::permanent(format!("MAX_AGE={text}: {error}")))?;
    Ok(Duration::from_secs(seconds))
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![remove_when_old])
}
