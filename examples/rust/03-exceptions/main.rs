//! Errors in handlers: temporary, permanent, and all others.
//!
//! ```console
//! cargo run --bin 03-exceptions -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl describe kex kopf-example-1
//! ```

use kopf::prelude::*;

#[derive(Debug, thiserror::Error)]
#[error("no connection to the machine")]
struct Unreachable;

/// Fails three times, with a second in between, then succeeds.
#[kopf::on::create("kopfexamples")]
async fn temporary(retry: Retry) -> kopf::Result<Value> {
    if *retry < 3 {
        return Err(kopf::temporary("the data is not available yet").delay(1));
    }
    Ok(json!({"attempts": *retry + 1}))
}

/// Is never retried.
#[kopf::on::create("kopfexamples")]
async fn permanent() -> kopf::Result<()> {
    Err(kopf::permanent("the data is invalid"))
}

/// Returns any error with `?`. Is retried after the backoff, at most `retries` times in total.
#[kopf::on::create("kopfexamples", retries = 3, backoff = 1)]
async fn eventual() -> kopf::Result<()> {
    reach_the_machine()?;
    Ok(())
}

/// Is retried for two seconds.
#[kopf::on::create("kopfexamples", timeout = 2, backoff = 1)]
async fn hopeless() -> kopf::Result<()> {
    reach_the_machine()?;
    Ok(())
}

/// Counts as succeeded.
#[kopf::on::create("kopfexamples", errors = kopf::ErrorsMode::Ignored)]
async fn ignored() -> kopf::Result<()> {
    reach_the_machine()?;
    Ok(())
}

fn reach_the_machine() -> Result<(), Unreachable> {
    Err(Unreachable)
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![
        temporary, permanent, eventual, hopeless, ignored
    ])
}
