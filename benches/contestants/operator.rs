//! The operator that is measured.

use kopf::prelude::*;

#[kopf::on::create("kopfexamples")]
async fn create_fn() -> kopf::Result<Value> {
    Ok(json!({"message": "hello world"}))
}

fn main() -> std::process::ExitCode {
    let mut operator = kopf::Operator::builder().handlers_from_macros();
    operator.settings_mut().posting.enabled = false;
    if std::env::var_os("BENCH_METRICS").is_some_and(|value| value == "off") {
        operator.settings_mut().process.metrics = false;
    }
    kopf::main_with(operator)
}
