//! Timers: functions that are called regularly for every object.
//!
//! ```console
//! cargo run --bin 15-timers -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl patch -f examples/obj.yaml --type merge -p '{"spec": {"field": "other"}}'
//! ```

use kopf::prelude::*;
use kopf::{Patch, Status};

/// Called every half a second, regardless of the duration of a call, while the object has not
/// changed for a second.
#[kopf::timer("kopfexamples", idle = 1, interval = 0.5, sharp = true)]
fn every_half_second(Spec(spec): Spec) {
    tracing::info!("=> Ping: field={}", spec["field"]);
}

/// Called once after each change, when the object has not changed for a second.
#[kopf::timer("kopfexamples", idle = 1)]
async fn after_each_change(Spec(spec): Spec) -> Value {
    spec["field"].clone()
}

/// Counts in the status of the object. Retries do not wait for the interval.
#[kopf::timer("kopfexamples", interval = 0.5, backoff = 0.1)]
async fn counter(Status(status): Status, retry: Retry, patch: Patch) -> kopf::Result<()> {
    if *retry < 1 {
        return Err(kopf::temporary("succeeds at the second attempt").delay(0.1));
    }
    patch
        .status()
        .set("count", status["count"].as_u64().unwrap_or(0) + 1);
    Ok(())
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![
        every_half_second,
        after_each_change,
        counter
    ])
}
