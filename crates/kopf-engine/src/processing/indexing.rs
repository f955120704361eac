//! Handlers that keep indices: all of them, for every version, before anything else.

use std::collections::HashMap;
use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::{Cause, EventType};
use kopf_core::handler::HandlerId;
use kopf_core::indexing::Effect;

use super::Error;
use crate::execution::{Execution, Indexed, PriorAttempts};
use crate::indexing::{Entries, ObjectKey};
use crate::invocation::FilterContext;
use crate::logger::ObjectLogger;
use crate::queueing::{Holding, Kind, Memory};

/// Brings the entries of the object up to date with this version of it.
pub(crate) async fn index(
    kind: &Kind,
    object: &ObjectKey,
    memory: &mut Memory,
    (event, body): (EventType, &Body),
    logger: &ObjectLogger,
    holding: &mut Holding,
) {
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
        // Nobody knows whether the object matches: then all stays as it is.
        effects.insert(Arc::clone(&error.handler), (Effect::Keep, None));
        let error = Error::from(error).chain();
        logger
            .local()
            .error(format_args!("A handler of an index is skipped: {error}"));
    });
    if handlers.is_empty() && effects.is_empty() {
        kind.indices.discard(object);
        return;
    }
    let mut attempts = memory.indexing.take().unwrap_or_default();
    // The patch of index handlers is never written.
    let execution = Execution::new(&kind.shared.executor, cause, logger.terse(), memo);
    holding.give_away();
    for handler in handlers {
        let Some(before) = attempts.next(&handler.id, context.clock.now()) else {
            continue;
        };
        let (retries, started) = before;
        let prior = PriorAttempts { retries, started };
        let Indexed { outcome, entries } = execution.indexed(&handler, prior).await;
        let now = context.clock.now();
        attempts.note(&handler.id, before, &outcome, now);
        let effect = Effect::of(&outcome, entries.is_some());
        // Of several handlers of one index, the last one decides.
        effects.insert(Arc::clone(&handler.id), (effect, entries));
    }
    holding.take_again().await;
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
            // A handler that is not called has no say.
            Some((Effect::Replace | Effect::Discard, _)) | None => index.discard(object),
        }
    }
}
