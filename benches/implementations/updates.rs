//! An operator that notes how long updates take from their writing to their handler.
//!
//! `BENCH_LATENCIES` is the file for the microseconds, one line each. `BENCH_LISTING` is `streamed` or `paged`.

#![expect(
    clippy::disallowed_methods,
    reason = "the times of two processes are compared"
)]

use std::fs::File;
use std::io::Write as _;
use std::process::ExitCode;
use std::sync::{LazyLock, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use kopf::prelude::*;

static LATENCIES: LazyLock<Option<Mutex<File>>> = LazyLock::new(|| {
    let path = std::env::var_os("BENCH_LATENCIES")?;
    File::create(path).ok().map(Mutex::new)
});

#[kopf::on::create("kopfexamples")]
async fn create_fn() {}

/// The time of writing is in `spec.sent`, in microseconds.
#[kopf::on::update("kopfexamples", field = "spec.sent")]
async fn update_fn(spec: Spec) -> kopf::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
    let sent = spec["sent"].as_u64().map(u128::from).unwrap_or_default();
    let took = now.as_micros().saturating_sub(sent);
    if let Some(Ok(mut file)) = LATENCIES.as_ref().map(Mutex::lock) {
        writeln!(file, "{took}")?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut operator = kopf::Operator::builder().handlers_from_macros();
    let settings = operator.settings_mut();
    settings.posting.enabled = false;
    settings.watching.initial_streaming =
        std::env::var_os("BENCH_LISTING").is_some_and(|listing| listing == "streamed");
    kopf::main(operator)
}
