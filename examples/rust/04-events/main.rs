//! Log records and Kubernetes events of an object, as shown by `kubectl describe`.
//!
//! ```console
//! cargo run --bin 04-events -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl describe kex kopf-example-1
//! ```

use kopf::Events;
use kopf::prelude::*;

#[kopf::on::create("kopfexamples")]
async fn create_fn(events: Events) {
    // Log records are also posted as events, unless the settings disable it.
    tracing::info!("Everything is fine so far.");

    events.post("SomeType", "SomeReason", "Some message");
    events.info("SomeReason", "Some message");
    events.warn("SomeReason", "Some message");
    if let Err(error) = "one".parse::<u32>() {
        events.exception("SomeReason", "Some exception:", &error);
    }
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![create_fn])
}
