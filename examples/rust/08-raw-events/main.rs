//! All watch events of objects: no causes, no retries, and nothing is stored.
//!
//! ```console
//! cargo run --bin 08-raw-events -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl label kex kopf-example-1 another=label
//! kubectl delete kex kopf-example-1
//! ```

use kopf::WatchEvent;
use kopf::prelude::*;

#[kopf::on::event("kopfexamples")]
async fn event_fn(event: WatchEvent, Name(name): Name) {
    // Objects that exist when the operator starts are listed; their events have no type.
    let kind = event.kind().unwrap_or("LISTED");
    tracing::info!("{kind}: {name}");
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![event_fn])
}
