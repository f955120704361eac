//! The operator that is measured.

use kopf::prelude::*;

#[kopf::on::create("kopfexamples")]
async fn create_fn() -> kopf::Result<Value> {
    Ok(json!({"message": "hello world"}))
}

fn main() -> std::process::ExitCode {
    let mut operator = kopf::Operator::builder().handlers_from_macros();
    operator.settings_mut().posting.enabled = false;
    kopf::main_with(operator)
}
