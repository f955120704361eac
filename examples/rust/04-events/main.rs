//! Log records and Kubernetes events of an object, as shown by `kubectl describe`.
//!
//! ```console
//! cargo run --bin 04-events -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl describe kex kopf-example-1
//! ```

use kopf::Body;
use kopf::prelude::*;

#[kopf::on::create("kopfexamples")]
async fn create_fn(body: Body, logger: Logger) -> kopf::Result<()> {
    // Log records are also posted as events, unless the settings disable it.
    logger.info("Everything is fine so far.");

    kopf::event(&body, "SomeType", "SomeReason", "Some message")?;
    kopf::info(&body, "SomeReason", "Some message")?;
    kopf::warn(&body, "SomeReason", "Some message")?;
    if let Err(error) = "one".parse::<u32>() {
        kopf::exception(&body, "SomeReason", "Some exception:", &error)?;
    }
    Ok(())
}

fn main() -> std::process::ExitCode {
    kopf::main()
}
