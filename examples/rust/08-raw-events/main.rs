//! Everything that Kubernetes tells about objects, as it tells it: no causes, no retries, nothing is
//! stored.
//!
//! ```console
//! cargo run --bin 08-raw-events -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl label kex kopf-example-1 another=label
//! kubectl delete kex kopf-example-1
//! ```

use kopf::Event;
use kopf::prelude::*;

#[kopf::on::event("kopfexamples")]
async fn event_fn(event: Event, Name(name): Name, logger: Logger) {
    // There is no type when the object is listed: it was there before the operator.
    let kind = event.kind().unwrap_or("LISTED");
    logger.info(format_args!("{kind}: {name}"));
}

fn main() -> std::process::ExitCode {
    kopf::main()
}
