//! Filters of handlers. Objects without a matching handler are not modified.
//!
//! ```console
//! cargo run --bin 11-filtering -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl patch kex kopf-example-1 --type merge -p '{"spec": {"field": "changed"}}'
//! ```

use kopf::Body;
use kopf::prelude::*;

#[kopf::on::create("kopfexamples", labels = {"somelabel": "somevalue"})]
async fn label_value(logger: Logger) {
    logger.info("The label has the value.");
}

#[kopf::on::create("kopfexamples", labels = {"somelabel": PRESENT})]
async fn label_present(logger: Logger) {
    logger.info("The label is present.");
}

#[kopf::on::create("kopfexamples", labels = {"otherlabel": ABSENT})]
async fn label_absent(logger: Logger) {
    logger.info("The other label is absent.");
}

#[kopf::on::create("kopfexamples", annotations = {"someannotation": "othervalue"})]
async fn annotation_value(logger: Logger) {
    logger.info("The annotation has another value.");
}

#[kopf::on::create("kopfexamples", when = is_short)]
async fn function(logger: Logger) {
    logger.info("The function has returned true.");
}

#[kopf::on::create("kopfexamples", field = "spec.field", value = "value")]
async fn field_value(logger: Logger) {
    logger.info("The field has the value.");
}

#[kopf::on::update("kopfexamples", field = "spec.field", old = "value", new = "changed")]
async fn field_change(logger: Logger) {
    logger.info("The field has changed.");
}

fn is_short(body: &Body) -> bool {
    body.spec()["duration"] == "1m"
}

fn main() -> std::process::ExitCode {
    kopf::main()
}
