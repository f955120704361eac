//! Filters of handlers. Objects without a matching handler are not modified.
//!
//! ```console
//! cargo run --bin 11-filtering -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl patch kex kopf-example-1 --type merge -p '{"spec": {"field": "changed"}}'
//! ```

use kopf::Body;
use kopf::prelude::*;

#[kopf::on::create("kopfexamples", labels = {"somelabel": "somevalue"})]
async fn label_value() {
    tracing::info!("The label has the value.");
}

#[kopf::on::create("kopfexamples", labels = {"somelabel": PRESENT})]
async fn label_present() {
    tracing::info!("The label is present.");
}

#[kopf::on::create("kopfexamples", labels = {"otherlabel": ABSENT})]
async fn label_absent() {
    tracing::info!("The other label is absent.");
}

#[kopf::on::create("kopfexamples", annotations = {"someannotation": "othervalue"})]
async fn annotation_value() {
    tracing::info!("The annotation has another value.");
}

#[kopf::on::create("kopfexamples", when = is_short)]
async fn function() {
    tracing::info!("The function has returned true.");
}

#[kopf::on::create("kopfexamples", field = "spec.field", value = "value")]
async fn field_value() {
    tracing::info!("The field has the value.");
}

#[kopf::on::update("kopfexamples", field = "spec.field", old = "value", new = "changed")]
async fn field_change() {
    tracing::info!("The field has changed.");
}

fn is_short(body: &Body) -> bool {
    body.spec()["duration"] == "1m"
}

fn main() -> std::process::ExitCode {
    kopf::main(kopf::handlers![
        label_value,
        label_present,
        label_absent,
        annotation_value,
        function,
        field_value,
        field_change
    ])
}
