//! Index handlers: all of them, for every version, before anything else.

use std::collections::HashMap;
use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::{Cause, EventType};
use kopf_core::handler::HandlerId;
use kopf_core::indexing::Effect;

use super::{Holding, ObjectState, ResourceContext};
use crate::error::Error;
use crate::execution::{self, Execution, PriorAttempts};
use crate::indexing::{Entries, ObjectKey};
use crate::invocation::FilterContext;
use crate::logger::ObjectLogger;

/// A version of an object that is to be indexed.
pub(super) struct Indexed<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) event: EventType,
    pub(super) body: &'a Body,
    pub(super) logger: &'a ObjectLogger,
}

/// Updates the entries of the object in all indices of its resource.
pub(super) async fn index(
    kind: &ResourceContext,
    memory: &mut ObjectState,
    version: Indexed<'_>,
    holding: &mut Holding,
) {
    let Indexed {
        key: object,
        event,
        body,
        logger,
    } = version;
    if event == EventType::Deleted {
        kind.indices.discard(object);
        return;
    }
    let context = &kind.shared.context;
    let cause = Cause {
        resource: Arc::clone(&kind.resource),
        body: body.clone(),
        event: None,
        change: None,
    };
    let memo = memory.memo(&context.memo);
    let filtering = FilterContext::new(Arc::clone(context), memo.clone(), logger);
    let mut effects: HashMap<HandlerId, (Effect, Option<Entries>)> = HashMap::new();
    let handlers = kind.handlers.indexing_for(&cause, &filtering, |error| {
        // It is unknown whether the object matches, so its entries stay as they are.
        effects.insert(Arc::clone(&error.handler), (Effect::Keep, None));
        let error = Error::from(error).chain();
        logger
            .local()
            .error(format_args!("An index handler is skipped: {error}"));
    });
    if handlers.is_empty() && effects.is_empty() {
        kind.indices.discard(object);
        return;
    }
    let mut attempts = memory.indexing.take().unwrap_or_default();
    // The patch of index handlers is never written.
    let execution = Execution::new(&kind.shared.executor, cause, logger.clone(), memo);
    holding.release();
    for handler in handlers {
        let Some(before) = attempts.next(&handler.id, context.clock.now()) else {
            continue;
        };
        let (retries, started) = before;
        let prior = PriorAttempts { retries, started };
        let execution::Indexed { outcome, entries } = execution.indexed(&handler, prior).await;
        let now = context.clock.now();
        attempts.note(&handler.id, before, &outcome, now);
        let effect = Effect::of(&outcome, entries.is_some());
        // Of several handlers of one index, the last one decides.
        effects.insert(Arc::clone(&handler.id), (effect, entries));
    }
    holding.reacquire().await;
    memory.indexing = (!attempts.is_empty()).then_some(attempts);
    for (id, index) in kind.indices.iter() {
        match effects.remove(id) {
            Some((Effect::Keep, _)) => {}
            Some((Effect::Replace, Some(entries))) => {
                if let Err(error) = index.replace(object, entries) {
                    logger
                        .local()
                        .error(format_args!("Index '{id}' is not updated: {error}"));
                }
            }
            // The handler was not called.
            Some((Effect::Replace | Effect::Discard, _)) | None => index.discard(object),
        }
    }
}
