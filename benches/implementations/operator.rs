//! The benchmarked operator.

use std::sync::LazyLock;
use std::time::Duration;

use kopf::prelude::*;

/// Delay of the handler: the milliseconds in `BENCH_WAIT`.
static WAIT: LazyLock<Option<Duration>> = LazyLock::new(|| {
    let wait = std::env::var("BENCH_WAIT").ok()?;
    wait.parse().ok().map(Duration::from_millis)
});

#[kopf::on::create("kopfexamples")]
async fn create_fn() -> kopf::Result<Value> {
    if let Some(wait) = *WAIT {
        tokio::time::sleep(wait).await;
    }
    Ok(json!({"message": "hello world"}))
}

pub(crate) fn main() -> std::process::ExitCode {
    let mut operator = kopf::Operator::builder().handlers_from_macros();
    operator.settings_mut().posting.enabled = false;
    if std::env::var_os("BENCH_METRICS").is_some_and(|value| value == "off") {
        operator.settings_mut().process.metrics = false;
    }
    if std::env::var_os("BENCH_HTTP2").is_some_and(|value| value == "on") {
        operator.settings_mut().networking.http2 = true;
    }
    kopf::main(operator)
}
