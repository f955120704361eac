//! The handlers of the demo.

use kopf::prelude::*;
use kopf::{New, Old};

/// Fails once and is retried. Its result is stored in the object's status.
#[kopf::on::create("bakeries")]
async fn open(Spec(spec): Spec, retry: Retry, logger: Logger) -> kopf::Result<Value> {
    if *retry == 0 {
        return Err(kopf::temporary("the oven is cold").delay(1));
    }
    logger.info(format_args!(
        "Baking {} loaves of {}.",
        spec["loaves"], spec["bread"]
    ));
    Ok(json!({"oven": "hot", "attempts": *retry + 1}))
}

/// Receives the diff since the last handling.
#[kopf::on::update("bakeries")]
async fn change(diff: Diff, logger: Logger) {
    for item in &diff {
        let (operation, field) = (item.operation.as_str(), &item.field);
        logger.info(format_args!(
            "Difference: {operation} {field}: {} -> {}",
            item.old, item.new
        ));
    }
}

/// Runs when this field changes, including from nothing to its first value.
#[kopf::on::field("bakeries", field = "spec.loaves")]
async fn loaves(Old(old): Old, New(new): New, logger: Logger) {
    logger.info(format_args!("Loaves: {old} -> {new}"));
}

/// Runs before the object is deleted. The finalizer is kept until it succeeds.
#[kopf::on::delete("bakeries")]
async fn close(logger: Logger) {
    logger.info("The oven is off.");
}
