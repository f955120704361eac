//! What goes wrong: temporary errors, permanent ones, and all the others.
//!
//! ```console
//! cargo run --bin 03-exceptions -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl describe kex kopf-example-1
//! ```

use kopf::prelude::*;

#[derive(Debug, thiserror::Error)]
#[error("no connection to the machine")]
struct Unreachable;

/// Tried three times with a second in between, then it succeeds.
#[kopf::on::create("kopfexamples")]
async fn temporary(retry: Retry) -> kopf::Result<Value> {
    if *retry < 3 {
        return Err(kopf::temporary("the data is not there yet").delay(1));
    }
    Ok(json!({"attempts": *retry + 1}))
}

/// Never tried again.
#[kopf::on::create("kopfexamples")]
async fn permanent() -> kopf::Result<()> {
    Err(kopf::permanent(
        "the data is wrong, and will not get better",
    ))
}

/// Any error can be returned by `?`. It is tried again after the backoff, as often as allowed.
#[kopf::on::create("kopfexamples", retries = 3, backoff = 1)]
async fn eventual() -> kopf::Result<()> {
    reach_the_machine()?;
    Ok(())
}

/// As long as it is worth trying.
#[kopf::on::create("kopfexamples", timeout = 2, backoff = 1)]
async fn hopeless() -> kopf::Result<()> {
    reach_the_machine()?;
    Ok(())
}

/// Nobody cares.
#[kopf::on::create("kopfexamples", errors = IGNORED)]
async fn ignored() -> kopf::Result<()> {
    reach_the_machine()?;
    Ok(())
}

fn reach_the_machine() -> Result<(), Unreachable> {
    Err(Unreachable)
}

fn main() -> std::process::ExitCode {
    kopf::main()
}
