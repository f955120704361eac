//! The tested operator.

use std::ffi::OsStr;
use std::process::ExitCode;
use std::time::Duration;

use kopf::SettingsMut;
use kopf::prelude::*;

#[kopf::on::create("kopfexamples")]
async fn greet(Spec(spec): Spec, logger: Logger) -> kopf::Result<Value> {
    logger.info(format_args!("Here we are: {spec}"));
    if spec["blocks"] == true {
        // Blocks an async function, which handlers must not do.
        std::thread::sleep(Duration::from_secs(600));
    }
    if spec["slow"] == true {
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    assert!(spec["worst"] != true, "worse than bad");
    if spec["bad"] == true {
        return Err(kopf::permanent("no good"));
    }
    Ok(json!({"hello": "world"}))
}

#[kopf::on::create("kopfexamples", registry = "logs")]
async fn later() -> kopf::Result<()> {
    tracing::info!("Traced in an async function.");
    tracing::debug!(number = 5, "Debugged.");
    Err(kopf::temporary("not yet\n[default/example] Forged.").delay(600))
}

#[kopf::on::event("kopfexamples", registry = "logs")]
fn blocking() {
    tracing::info!("Traced in a blocking function.");
}

#[kopf::on::probe(registry = "hooks")]
fn answer() -> u32 {
    42
}

#[kopf::on::startup(registry = "hooks")]
fn begin(mut settings: SettingsMut, logger: Logger) {
    settings.process.ultimate_exiting_timeout = Some(Duration::from_secs(1));
    logger.info("Starting.");
}

#[kopf::on::startup(registry = "blocked")]
async fn stall(logger: Logger) {
    logger.info("Here we are");
    std::thread::sleep(Duration::from_secs(600));
}

#[kopf::on::startup(registry = "failing")]
fn fail() -> kopf::Result<()> {
    Err(kopf::permanent("Cannot start."))
}

#[kopf::on::cleanup(registry = "failing")]
#[kopf::on::cleanup(registry = "hooks")]
async fn end(logger: Logger) {
    logger.info("Exiting.");
    if std::env::var_os("HANG").is_some() {
        std::future::pending::<()>().await;
    }
}

pub(crate) fn main(flavour: &OsStr) -> ExitCode {
    if let Some(registry @ ("hooks" | "failing" | "blocked")) = flavour.to_str() {
        let builder = kopf::Operator::builder().handlers_from_macros();
        return kopf::main(builder.registry(registry));
    }
    if flavour == "logs" {
        return kopf::main(kopf::Operator::builder().registry("logs"));
    }
    if flavour == "wrong" {
        let mut builder = kopf::Operator::builder().registry("logs");
        builder.settings_mut().peering.name.clear();
        builder.settings_mut().networking.concurrency = 0;
        return kopf::main(builder);
    }
    if flavour == "builder" {
        let mut builder = kopf::Operator::builder()
            .handlers_from_macros()
            .namespaces(["chosen"]);
        builder.settings_mut().networking.trust_env = false;
        return kopf::main(builder);
    }
    kopf::main(kopf::Operator::builder().handlers_from_macros())
}
