//! Operators are not only for custom resources: this one removes pods that are older than half a
//! minute. Those of the system are left alone.
//!
//! ```console
//! cargo run --bin 10-builtins -- run --sandbox
//! kubectl run sleeper --image busybox -- sleep 600
//! ```
//!
//! On a real cluster, give it a namespace (`-n playground`): it removes all pods in its sight.

use std::time::Duration;

use kopf::jiff::Timestamp;
use kopf::k8s_openapi::api::core::v1::Pod;
use kopf::kube::Api;
use kopf::kube::api::DeleteParams;
use kopf::prelude::*;
use kopf::{Body, Namespace, Now};

/// Nobody wants to lose a cluster by an example.
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
    logger: Logger,
) -> kopf::Result<()> {
    let created: Timestamp = body.creation_timestamp().unwrap_or_default().parse()?;
    let age = Duration::try_from(now.duration_since(created)).unwrap_or_default();
    let left = max_age()?.saturating_sub(age);
    if !left.is_zero() {
        return Err(kopf::temporary("the pod is too young to be removed").delay(left));
    }
    pods.delete(&name, &DeleteParams::default()).await?;
    logger.info("The pod was too old, and is removed.");
    Ok(())
}

/// For the impatient: `MAX_AGE=5 cargo run …`
fn max_age() -> kopf::Result<Duration> {
    let text = std::env::var("MAX_AGE").unwrap_or_else(|_| "30".to_owned());
    let seconds = text.parse();
    let seconds =
        seconds.map_err(|error| kopf::permanent(format_args!("MAX_AGE={text}: {error}")))?;
    Ok(Duration::from_secs(seconds))
}

fn main() -> std::process::ExitCode {
    kopf::main()
}
