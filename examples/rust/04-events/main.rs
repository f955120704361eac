//! What is told about an object: to the log, and as events that `kubectl describe` shows.
//!
//! ```console
//! cargo run --bin 04-events -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl describe kex kopf-example-1
//! ```

use kopf::Body;
use kopf::prelude::*;

#[kopf::on::create("kopfexamples")]
async fn create_fn(body: Body, logger: Logger) -> kopf::Result<()> {
    // What is logged is posted, too, unless the settings say otherwise.
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
