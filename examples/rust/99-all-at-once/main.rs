//! All types of handlers on one object.
//!
//! ```console
//! cargo run --bin 99-all-at-once -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl patch kex kopf-example-1 --type merge -p '{"spec": {"field": "new"}}'
//! kubectl get kex kopf-example-1 -o yaml
//! kubectl delete kex kopf-example-1
//! ```
//!
//! With `--liveness http://127.0.0.1:8080/healthz`, the results of the probe are at that URL.

use std::time::Duration;

use kopf::prelude::*;
use kopf::{Live, New, Old, Patch, SettingsMut, SubHandlers};

/// The memo of an object.
#[derive(Clone, Default)]
struct Seen {
    events: u32,
}

#[kopf::on::startup]
async fn startup_fn(mut settings: SettingsMut, logger: Logger) {
    settings.execution.default_backoff = Duration::from_secs(1);
    logger.info("STARTED");
}

#[kopf::on::cleanup]
async fn cleanup_fn(logger: Logger) {
    logger.info("CLEANED UP");
}

#[kopf::on::probe]
async fn objects(fields: Index<by_field>) -> usize {
    fields.keys().len()
}

/// Complete before any other handler is called.
#[kopf::index("kopfexamples")]
async fn by_field(Spec(spec): Spec, Name(name): Name) -> Option<(String, String)> {
    Some((spec["field"].as_str()?.to_owned(), name))
}

#[kopf::on::event("kopfexamples")]
async fn event_fn(memo: Memo<Seen>) {
    memo.write().events += 1;
}

#[kopf::on::resume("kopfexamples")]
async fn resume_fn(logger: Logger) {
    logger.info("RESUMED");
}

#[kopf::on::create("kopfexamples")]
async fn create_fn(
    Spec(spec): Spec,
    fields: Index<by_field>,
    subs: SubHandlers,
    logger: Logger,
) -> Value {
    logger.info("CREATED");
    for item in spec["items"].as_array().into_iter().flatten() {
        let item = item.as_str().unwrap_or("unnamed").to_owned();
        subs.register(item.clone(), async move |logger: Logger| {
            logger.info(format_args!("HANDLED {item}"));
        });
    }
    let field = spec["field"].as_str().unwrap_or_default();
    json!({"with-this-field": fields.get(field).len()})
}

#[kopf::on::update("kopfexamples")]
async fn update_fn(diff: Diff, logger: Logger) {
    logger.info(format_args!("UPDATED: {diff}"));
}

#[kopf::on::field("kopfexamples", field = "spec.field")]
async fn field_fn(Old(old): Old, New(new): New, logger: Logger) {
    logger.info(format_args!("FIELD: {old} -> {new}"));
}

#[kopf::on::delete("kopfexamples")]
async fn delete_fn(logger: Logger) {
    logger.info("DELETED");
}

/// Runs for as long as the object exists.
#[kopf::daemon("kopfexamples", cancellation_timeout = 3)]
async fn monitor(spec: Live<Spec>, stopped: Stopped, logger: Logger) {
    logger.info("MONITORED");
    let mut last = Value::Null;
    while !stopped.wait(0.1).await {
        let field = spec.get()["field"].clone();
        if field != last {
            logger.info(format_args!("SEEN: {field}"));
            last = field;
        }
    }
    logger.info("NOT MONITORED");
}

#[kopf::timer("kopfexamples", interval = 1)]
async fn tick(memo: Memo<Seen>, patch: Patch) {
    let events = memo.read().events;
    if events > 0 {
        patch.status().set("noticed", true);
    }
}

fn main() -> std::process::ExitCode {
    kopf::main()
}
