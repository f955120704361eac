//! Event handlers: all of them, for every event, one attempt, errors are only logged.

use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::{Cause, EventType};
use kopf_core::patch::Patch;

use super::{Holding, ResourceContext};
use crate::error::Error;
use crate::execution::{AttemptLog, Execution};
use crate::invocation::{FilterContext, SharedPatch, Slot};
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
    let context = FilterContext::new(Arc::clone(&kind.shared.context), memo.clone());
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
    let execution = Execution {
        shared: Arc::clone(&kind.shared),
        cause: Arc::new(cause),
        patch: SharedPatch::default(),
        logger: logger.clone(),
        lifecycle: Arc::clone(&kind.shared.lifecycle),
        memo,
        slot: Slot::default(),
        attempts: AttemptLog::default(),
    };
    for handler in handlers {
        execution.once(&handler).await;
    }
    holding.reacquire().await;
    execution.patch.take()
}
