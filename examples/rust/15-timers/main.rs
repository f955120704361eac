//! Timers: functions that are called again and again for every object.
//!
//! ```console
//! cargo run --bin 15-timers -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl patch -f examples/obj.yaml --type merge -p '{"spec": {"field": "other"}}'
//! ```

use kopf::prelude::*;
use kopf::{Patch, Status};

/// Called every half a second for as long as the object is left alone for a second, however long
/// the call takes.
#[kopf::timer("kopfexamples", idle = 1, interval = 0.5, sharp = true)]
fn every_half_second(Spec(spec): Spec, logger: Logger) {
    logger.info(format_args!("=> Ping: field={}", spec["field"]));
}

/// Called once for each change, when the object was left alone for a second.
#[kopf::timer("kopfexamples", idle = 1)]
async fn after_each_change(Spec(spec): Spec) -> Value {
    spec["field"].clone()
}

/// Counts on the object itself. Errors are tried again earlier than the interval says.
#[kopf::timer("kopfexamples", interval = 0.5, backoff = 0.1)]
async fn counter(Status(status): Status, retry: Retry, patch: Patch) -> kopf::Result<()> {
    if *retry < 1 {
        return Err(kopf::temporary("Always at the second attempt.").delay(0.1));
    }
    patch
        .status()
        .set("count", status["count"].as_u64().unwrap_or(0) + 1);
    Ok(())
}

fn main() -> std::process::ExitCode {
    kopf::main()
}
