//! A minimal operator: one handler for new objects, whose result is stored in their status.
//!
//! ```console
//! cargo run --bin 01-minimal -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl get kex
//! ```

use kopf::prelude::*;

#[kopf::on::create("kopfexamples")]
async fn create_fn(Spec(spec): Spec) -> kopf::Result<Value> {
    tracing::info!("Creating: {spec}");
    Ok(json!({"message": "hello world"}))
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![create_fn])
}
