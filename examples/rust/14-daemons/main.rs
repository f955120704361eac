//! Daemons: functions that run for as long as their object exists and the operator runs.
//!
//! ```console
//! cargo run --bin 14-daemons -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl patch -f examples/obj.yaml --type merge -p '{"spec": {"field": "other"}}'
//! kubectl delete -f examples/obj.yaml
//! ```

use kopf::prelude::*;
use kopf::{Live, Patch};

/// An async daemon is a task. It sleeps with `stopped`, so it exits immediately when it is stopped.
#[kopf::daemon(
    "kopfexamples",
    initial_delay = 0.1,
    backoff = 1,
    cancellation_backoff = 1,
    cancellation_timeout = 3
)]
async fn background_async(spec: Live<Spec>, stopped: Stopped, retry: Retry) -> kopf::Result<()> {
    tracing::info!("=> Starting to ping things in the background.");
    if *retry == 0 {
        return Err(kopf::temporary("Not now, but soon.").delay(0.1));
    }
    while !stopped.wait(0.5).await {
        // `Live` returns the current spec, not that of the call.
        tracing::info!("=> Pinging in a task: field={}", spec.get()["field"]);
    }
    tracing::info!("=> Stopped: {}", stopped.reason());
    Ok(())
}

/// A blocking daemon has its own thread, and must check `stopped`.
#[kopf::daemon("kopfexamples")]
fn background_sync(stopped: Stopped, patch: Patch) -> Value {
    let mut pings = 0;
    while !stopped.wait_blocking(0.5) {
        tracing::info!("=> Pinging in a thread.");
        pings += 1;
    }
    // The patch is applied when the function returns.
    patch.status().set("goodbye", stopped.reason().to_string());
    json!({"pings": pings})
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![background_async, background_sync])
}
