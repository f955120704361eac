//! The operator of the demo: a handler for each thing that can happen to a bakery.

use kopf::prelude::*;
use kopf::{New, Old};

/// Tried again after an error. What it returns goes to the object's status.
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

/// Is told what has changed since it was last called.
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

/// Is called for one field alone, whenever that changes: also from nothing to its first value.
#[kopf::on::field("bakeries", field = "spec.loaves")]
async fn loaves(Old(old): Old, New(new): New, logger: Logger) {
    logger.info(format_args!("Loaves: {old} -> {new}"));
}

/// The object is not gone before this has succeeded.
#[kopf::on::delete("bakeries")]
async fn close(logger: Logger) {
    logger.info("The oven is off.");
}
