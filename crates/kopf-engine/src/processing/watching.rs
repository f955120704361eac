//! Handlers of raw events: all of them, for every event, one attempt, errors are only logged.

use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::{Cause, EventType};
use kopf_core::patch::Patch;

use super::Error;
use crate::execution::Execution;
use crate::invocation::FilterContext;
use crate::logger::ObjectLogger;
use crate::memos::MemoCell;
use crate::queueing::{Holding, Kind};

/// Runs all matching handlers in order. Returns what they want to be written.
pub(crate) async fn watch(
    kind: &Kind,
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
        // The others are not to blame.
        let error = Error::from(error).chain();
        logger.error(format_args!("A handler of events is skipped: {error}"));
    });
    if handlers.is_empty() {
        return Patch::default();
    }
    holding.give_away();
    let execution = Execution::new(&kind.shared.executor, cause, logger.clone(), memo);
    for handler in handlers {
        execution.once(&handler).await;
    }
    holding.take_again().await;
    execution.patch.take()
}
