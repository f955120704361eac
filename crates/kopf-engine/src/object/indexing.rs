//! Calls of index handlers: all of them, for every version, before other handlers.

use std::collections::HashMap;
use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::{Cause, EventType};
use kopf_core::handler::HandlerId;
use kopf_core::indexing::{Attempts, Effect};

use super::{ObjectPermit, ObjectState, ResourceContext};
use crate::clock::Clock;
use crate::error::Error;
use crate::execution::{self, Execution, PriorAttempts};
use crate::indexing::{Entries, ObjectKey};
use crate::invocation::{FilterContext, Handler};
use crate::logger::ObjectLogger;

/// A version of an object to index.
pub(super) struct Indexed<'a> {
    pub(super) key: &'a ObjectKey,
    pub(super) event: EventType,
    pub(super) body: &'a Body,
    pub(super) logger: &'a ObjectLogger,
    pub(super) replica: HandlingReplica,
}

/// The replica that handles an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandlingReplica {
    This,
    Other,
}

/// The effects of index handlers, by their ids.
type Effects = HashMap<HandlerId, (Effect, Option<Entries>)>;

/// Updates the entries of the object in all indices of its resource.
pub(super) async fn index(
    context: &ResourceContext,
    state: &mut ObjectState,
    version: Indexed<'_>,
    permit: &mut ObjectPermit,
) {
    if version.event == EventType::Deleted {
        return context.indices.discard(version.key);
    }
    let cause = Cause::new(Arc::clone(&context.resource), version.body.clone());
    let operator = &context.shared.context;
    let memo = state.memo(&operator.memo);
    let filtering = FilterContext::new(Arc::clone(operator), memo.clone(), version.logger);
    let mut effects = Effects::new();
    let mut handlers = context.handlers.indexing_for(&cause, &filtering, |error| {
        // It is unknown whether the object matches, so its entries are kept.
        effects.insert(Arc::clone(&error.handler), (Effect::Keep, None));
        let error = Error::from(error).chain();
        let logger = version.logger.local();
        logger.error(format_args!("An index handler is skipped: {error}"));
    });
    if version.replica == HandlingReplica::Other {
        handlers.retain(|handler| !context.is_sharded(&handler.id));
    }
    if handlers.is_empty() && effects.is_empty() {
        return context.indices.discard(version.key);
    }
    // The patch of index handlers is never written.
    let execution = Execution::new(
        &context.shared.executor,
        cause,
        version.logger.clone(),
        memo,
    );
    let mut attempts = state.indexing.take().unwrap_or_default();
    permit.release();
    effects.extend(call(&execution, &handlers, &mut attempts, operator.clock).await);
    permit.reacquire().await;
    state.indexing = (!attempts.is_empty()).then_some(attempts);
    apply(context, &version, effects);
}

/// Calls the due index handlers. Of several handlers of one index, the last one takes effect.
async fn call(
    execution: &Execution,
    handlers: &[Arc<Handler>],
    attempts: &mut Attempts,
    clock: Clock,
) -> Effects {
    let mut effects = Effects::new();
    for handler in handlers {
        let Some(before) = attempts.next(&handler.id, clock.now()) else {
            continue;
        };
        let (retries, started) = before;
        let prior = PriorAttempts { retries, started };
        let execution::Indexed { outcome, entries } = execution.indexed(handler, prior).await;
        attempts.note(&handler.id, before, &outcome, clock.now());
        let effect = Effect::of(&outcome, entries.is_some());
        effects.insert(Arc::clone(&handler.id), (effect, entries));
    }
    effects
}

/// Updates all indices. Removes the entries of objects whose handler was not called.
fn apply(context: &ResourceContext, version: &Indexed<'_>, mut effects: Effects) {
    for (id, index) in context.indices.iter() {
        match effects.remove(id) {
            Some((Effect::Keep, _)) => {}
            Some((Effect::Replace, Some(entries))) => {
                if let Err(error) = index.replace(version.key, entries) {
                    let logger = version.logger.local();
                    logger.error(format_args!("Index '{id}' is not updated: {error}"));
                }
            }
            Some((Effect::Replace | Effect::Discard, _)) | None => index.discard(version.key),
        }
    }
}
