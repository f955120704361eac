//! Activities of the operator itself: startup, login, probes, cleanup.
//!
//! ```console
//! cargo run --bin 13-hooks -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml --liveness http://localhost:18080/healthz
//! curl http://localhost:18080/healthz
//! ```

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kopf::prelude::*;
use kopf::{Credentials, login_with_kubeconfig, login_with_service_account};
use kopf::{Now, Settings, SettingsMut};

/// The database of the handlers, connected at startup.
static DATABASE: OnceLock<String> = OnceLock::new();
static CREATED: AtomicU64 = AtomicU64::new(0);

#[kopf::on::startup]
fn configure(mut settings: SettingsMut) {
    settings.posting.level = kopf::Level::Warning;
    settings.execution.default_backoff = Duration::from_secs(10);
}

// No handler is called before it succeeds.
#[kopf::on::startup(retries = 5)]
async fn connect(retry: Retry) -> kopf::Result<()> {
    if *retry == 0 {
        return Err(kopf::temporary("the database is not ready").delay(0.1));
    }
    let database = DATABASE.get_or_init(|| "db://somewhere".to_owned());
    tracing::info!("Connected to {database}.");
    Ok(())
}

// Does the same as the default login. It is called again when the credentials are rejected, and not
// called with `--sandbox`.
#[kopf::on::login(retries = 3)]
fn login_fn(settings: Settings) -> Option<Credentials> {
    tracing::info!("Logging in.");
    login_with_service_account(&settings).or_else(|| login_with_kubeconfig(&settings))
}

#[kopf::on::cleanup]
fn disconnect() {
    if let Some(database) = DATABASE.get() {
        tracing::info!("Disconnected from {database}.");
    }
}

#[kopf::on::probe]
fn now(Now(now): Now) -> String {
    now.to_string()
}

#[kopf::on::probe(id = "created")]
fn count() -> u64 {
    CREATED.load(Ordering::Relaxed)
}

#[kopf::on::create("kopfexamples")]
fn create_fn(Name(name): Name) -> kopf::Result<()> {
    let database = DATABASE.get();
    let database = database.ok_or_else(|| kopf::permanent("not connected"))?;
    tracing::info!("Storing {name} in {database}.");
    CREATED.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![
        configure, connect, login_fn, disconnect, now, count, create_fn
    ])
}
