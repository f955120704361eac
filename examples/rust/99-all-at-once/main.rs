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
async fn startup_fn(mut settings: SettingsMut) {
    settings.execution.default_backoff = Duration::from_secs(1);
    tracing::info!("STARTED");
}

#[kopf::on::cleanup]
async fn cleanup_fn() {
    tracing::info!("CLEANED UP");
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
async fn resume_fn() {
    tracing::info!("RESUMED");
}

#[kopf::on::create("kopfexamples")]
async fn create_fn(Spec(spec): Spec, fields: Index<by_field>, subs: SubHandlers) -> Value {
    tracing::info!("CREATED");
    for item in spec["items"].as_array().into_iter().flatten() {
        let item = item.as_str().unwrap_or("unnamed").to_owned();
        subs.register(item.clone(), async move || {
            tracing::info!("HANDLED {item}");
        });
    }
    let field = spec["field"].as_str().unwrap_or_default();
    json!({"with-this-field": fields.get(field).len()})
}

#[kopf::on::update("kopfexamples")]
async fn update_fn(diff: Diff) {
    tracing::info!("UPDATED: {diff}");
}

#[kopf::on::field("kopfexamples", field = "spec.field")]
async fn field_fn(Old(old): Old, New(new): New) {
    tracing::info!("FIELD: {old} -> {new}");
}

#[kopf::on::delete("kopfexamples")]
async fn delete_fn() {
    tracing::info!("DELETED");
}

/// Runs for as long as the object exists.
#[kopf::daemon("kopfexamples", cancellation_timeout = 3)]
async fn monitor(spec: Live<Spec>, stopped: Stopped) {
    tracing::info!("MONITORED");
    let mut last = Value::Null;
    while !stopped.wait(0.1).await {
        let field = spec.get()["field"].clone();
        if field != last {
            tracing::info!("SEEN: {field}");
            last = field;
        }
    }
    tracing::info!("NOT MONITORED");
}

#[kopf::timer("kopfexamples", interval = 1)]
async fn tick(memo: Memo<Seen>, patch: Patch) {
    let events = memo.read().events;
    if events > 0 {
        patch.status().set("noticed", true);
    }
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![
        startup_fn, cleanup_fn, objects, by_field, event_fn, resume_fn, create_fn, update_fn,
        field_fn, delete_fn, monitor, tick
    ])
}
