//! Handlers for some objects only. Objects that no handler is for are not touched at all.
//!
//! ```console
//! cargo run --bin 11-filtering -- run --sandbox -f examples/crd.yaml -f examples/obj.yaml
//! kubectl patch kex kopf-example-1 --type merge -p '{"spec": {"field": "changed"}}'
//! ```

use kopf::Body;
use kopf::prelude::*;

#[kopf::on::create("kopfexamples", labels = {"somelabel": "somevalue"})]
async fn label_is_so(logger: Logger) {
    logger.info("The label is as it should be.");
}

#[kopf::on::create("kopfexamples", labels = {"somelabel": PRESENT})]
async fn label_is_there(logger: Logger) {
    logger.info("The label is there.");
}

#[kopf::on::create("kopfexamples", labels = {"nolabel": ABSENT})]
async fn label_is_not_there(logger: Logger) {
    logger.info("The other label is not there.");
}

#[kopf::on::create("kopfexamples", annotations = {"someannotation": "othervalue"})]
async fn annotation_is_other(logger: Logger) {
    logger.info("This is never said for the example's object.");
}

#[kopf::on::create("kopfexamples", when = is_short)]
async fn is_decided_by_a_function(logger: Logger) {
    logger.info("The function has agreed.");
}

#[kopf::on::create("kopfexamples", field = "spec.field", value = "value")]
async fn value_is_so(logger: Logger) {
    logger.info("The field has the value.");
}

#[kopf::on::update("kopfexamples", field = "spec.field", old = "value", new = "changed")]
async fn value_has_changed_so(logger: Logger) {
    logger.info("The field has changed from the one to the other.");
}

fn is_short(body: &Body) -> bool {
    body.spec()["duration"] == "1m"
}

fn main() -> std::process::ExitCode {
    kopf::main()
}
