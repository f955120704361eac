//! A handler for each change of an object, and one for a field.
//!
//! ```console
//! cargo run --bin 05-handlers -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl patch kex kopf-example-1 --type merge -p '{"spec": {"field": "new"}}'
//! kubectl delete kex kopf-example-1
//! ```

use kopf::prelude::*;
use kopf::{New, Old};

/// Called for objects that existed before the operator started.
#[kopf::on::resume("kopfexamples")]
async fn resume_fn() {
    tracing::info!("RESUMED");
}

#[kopf::on::create("kopfexamples")]
async fn create_fn() {
    tracing::info!("CREATED");
}

/// Another handler of the same cause; each has its own retries.
#[kopf::on::create("kopfexamples")]
async fn create_again() {
    tracing::info!("CREATED AGAIN");
}

#[kopf::on::update("kopfexamples")]
async fn update_fn(diff: Diff) {
    for item in &diff {
        let (operation, field) = (item.operation.as_str(), &item.field);
        tracing::info!("UPDATED: {operation} {field}: {} -> {}", item.old, item.new);
    }
}

#[kopf::on::field("kopfexamples", field = "spec.field")]
async fn field_fn(Old(old): Old, New(new): New) {
    tracing::info!("FIELD: {old} -> {new}");
}

/// The object is not removed until this handler succeeds.
#[kopf::on::delete("kopfexamples")]
async fn delete_fn() {
    tracing::info!("DELETED");
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![
        resume_fn,
        create_fn,
        create_again,
        update_fn,
        field_fn,
        delete_fn
    ])
}
