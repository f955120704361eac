//! The operator of the admission benchmark. Its port, certificate and key are environment
//! variables.

use std::process::ExitCode;
use std::sync::Arc;

use kopf::webhooks::Server;

#[kopf::on::validate("kopfexamples")]
async fn check() -> kopf::Result<()> {
    Ok(())
}

fn main() -> ExitCode {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let server = Server::new()
        .addr("127.0.0.1")
        .port(variable("BENCH_PORT").parse().unwrap_or_default())
        .certfile(variable("BENCH_CERTIFICATE"))
        .pkeyfile(variable("BENCH_KEY"));
    let mut operator = kopf::Operator::builder().handlers_from_macros();
    operator.settings_mut().admission.server = Some(Arc::new(server));
    kopf::main(operator)
}
