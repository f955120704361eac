//! The smallest operator: it reacts to new objects, and what the handler returns goes to their
//! status.
//!
//! ```console
//! cargo run --bin 01-minimal -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl get kex
//! ```

use kopf::prelude::*;

#[kopf::on::create("kopfexamples")]
async fn create_fn(Spec(spec): Spec, logger: Logger) -> kopf::Result<Value> {
    logger.info(format_args!("And here we are! Creating: {spec}"));
    Ok(json!({"message": "hello world"}))
}

fn main() -> std::process::ExitCode {
    kopf::main()
}
