//! Calls of event handlers: all of them, for every event, with one attempt; errors are only logged.

use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::{Cause, EventType};
use kopf_core::patch::Patch;

use super::{ObjectPermit, ResourceContext};
use crate::error::Error;
use crate::execution::{Contribution, Execution};
use crate::invocation::FilterContext;
use crate::leading::Pass;
use crate::logger::ObjectLogger;
use crate::memos::MemoCell;

/// Calls all matching handlers in order and returns their patch, with the part of each.
pub(super) async fn watch(
    context: &ResourceContext,
    event: EventType,
    body: &Body,
    memo: MemoCell,
    pass: Pass,
    logger: &ObjectLogger,
    permit: &mut ObjectPermit,
) -> (Patch, Vec<Contribution>) {
    let mut cause = Cause::new(Arc::clone(&context.resource), body.clone());
    cause.event = Some(event);
    let filtering = FilterContext::new(Arc::clone(&context.shared.context), memo.clone(), logger);
    let handlers = context.handlers.watching_for(&cause, &filtering, |error| {
        let error = Error::from(error).chain();
        logger
            .local()
            .error(format_args!("An event handler is skipped: {error}"));
    });
    if handlers.is_empty() {
        return Default::default();
    }
    permit.release();
    let execution =
        Execution::new(&context.shared.executor, cause, logger.clone(), memo).with_pass(pass);
    for handler in handlers {
        execution.once(&handler).await;
    }
    permit.reacquire().await;
    (execution.patch.take(), execution.contributions.take())
}
