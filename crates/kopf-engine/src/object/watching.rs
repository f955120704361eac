//! Event handlers: all of them, for every event, one attempt, errors are only logged.

use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::{Cause, EventType};
use kopf_core::patch::Patch;

use super::{Holding, ResourceContext};
use crate::error::Error;
use crate::execution::Execution;
use crate::invocation::FilterContext;
use crate::logger::ObjectLogger;
use crate::memos::MemoCell;

/// Calls all matching handlers in order. Returns their patch.
pub(super) async fn watch(
    kind: &ResourceContext,
    event: EventType,
    body: &Body,
    memo: MemoCell,
    logger: &ObjectLogger,
    holding: &mut Holding,
) -> Patch {
    let cause = Cause {
        resource: Arc::clone(&kind.resource),
        body: body.clone(),
        event: Some(event),
        change: None,
    };
    let context = FilterContext::new(Arc::clone(&kind.shared.context), memo.clone(), logger);
    let handlers = kind.handlers.watching_for(&cause, &context, |error| {
        let error = Error::from(error).chain();
        logger
            .local()
            .error(format_args!("An event handler is skipped: {error}"));
    });
    if handlers.is_empty() {
        return Patch::default();
    }
    holding.release();
    let execution = Execution::new(&kind.shared.executor, cause, logger.clone(), memo);
    for handler in handlers {
        execution.once(&handler).await;
    }
    holding.reacquire().await;
    execution.patch.take()
}
