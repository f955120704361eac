//! Calls of handlers outside of cycles: index handlers, event handlers, child handlers.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use kopf_core::cause::{Cause, EventType};
use kopf_core::handler::HandlerId;
use kopf_core::indexing::{Attempts, Effect};
use kopf_core::object::Version;

use super::active::{Active, Base};
use super::context::{HandlingReplica, ObjectPermit};
use crate::child_inboxes::ChangedChild;
use crate::clock::Clock;
use crate::error::Error;
use crate::execution::{self, Execution, PriorAttempts, describe_panic};
use crate::indexing::Entries;
use crate::invocation::{Handler, OwnedObject};
use crate::logger::ObjectLogger;

/// The effects of index handlers, by their ids.
type Effects = HashMap<HandlerId, (Effect, Option<Entries>)>;

impl Base {
    /// Updates the entries of the object in all indices of its resource: all index handlers are
    /// called, for every version, before other handlers.
    pub(super) async fn index(
        &mut self,
        version: &Version,
        replica: HandlingReplica,
        logger: &ObjectLogger,
        permit: &mut ObjectPermit,
    ) {
        if self.context.indices.is_empty() {
            return;
        }
        let indexing = self.call_index_handlers(version, replica, logger, permit);
        if let Err(panic) = AssertUnwindSafe(indexing).catch_unwind().await {
            // The rest of the cycle and the next version may still succeed.
            self.report(&Error::Panic(describe_panic(&*panic)), None, Some(logger));
        }
        permit.reacquire().await;
    }

    async fn call_index_handlers(
        &mut self,
        version: &Version,
        replica: HandlingReplica,
        logger: &ObjectLogger,
        permit: &mut ObjectPermit,
    ) {
        let context = Arc::clone(&self.context);
        if version.event == EventType::Deleted {
            return context.indices.discard(&self.key);
        }
        let cause = Cause::new(Arc::clone(context.resource()), version.body.clone());
        let memo = self.memo();
        let filtering = context.filtering(&memo, logger);
        let mut effects = Effects::new();
        let handlers = &context.policy.handlers;
        let mut handlers = handlers.indexing_for(&cause, &filtering, |error| {
            // It is unknown whether the object matches, so its entries are kept.
            effects.insert(Arc::clone(&error.handler), (Effect::Keep, None));
            let error = Error::from(error).chain();
            let logger = logger.local();
            logger.error(format_args!("An index handler is skipped: {error}"));
        });
        if replica == HandlingReplica::Other {
            handlers.retain(|handler| !context.is_sharded(&handler.id));
        }
        if handlers.is_empty() && effects.is_empty() {
            return context.indices.discard(&self.key);
        }
        // The patch of index handlers is never written.
        let execution = Execution::new(&context.shared.executor, cause, logger.clone(), memo);
        let mut attempts = self.state.indexing.take().unwrap_or_default();
        permit.release();
        let clock = context.shared.context.clock;
        effects.extend(call_each(&execution, &handlers, &mut attempts, clock).await);
        permit.reacquire().await;
        self.state.indexing = (!attempts.is_empty()).then_some(attempts);
        self.apply_entries(effects, logger);
    }

    /// Updates all indices. Removes the entries of objects whose handler was not called.
    fn apply_entries(&self, mut effects: Effects, logger: &ObjectLogger) {
        for (id, index) in self.context.indices.iter() {
            match effects.remove(id) {
                Some((Effect::Keep, _)) => {}
                Some((Effect::Replace, Some(entries))) => {
                    if let Err(error) = index.replace(&self.key, entries) {
                        let logger = logger.local();
                        logger.error(format_args!("Index '{id}' is not updated: {error}"));
                    }
                }
                Some((Effect::Replace | Effect::Discard, _)) | None => index.discard(&self.key),
            }
        }
    }
}

/// Calls the due index handlers. Of several handlers of one index, the last one takes effect.
async fn call_each(
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

impl Active {
    /// Calls the event handlers: all of them, for every event, with one attempt; errors are only
    /// logged.
    pub(super) async fn call_event_handlers(
        &mut self,
        version: &Version,
        permit: &mut ObjectPermit,
    ) {
        let context = Arc::clone(&self.base.context);
        let handlers = &context.policy.handlers;
        if handlers.watching.is_empty() {
            return;
        }
        let logger = self.logger(&version.body).clone();
        let filtering = context.filtering(&self.base.memo(), &logger);
        let mut cause = Cause::new(Arc::clone(context.resource()), version.body.clone());
        cause.event = Some(version.event);
        let handlers = || {
            handlers.watching_for(&cause, &filtering, |error| {
                let error = Error::from(error).chain();
                let local = logger.local();
                local.error(format_args!("An event handler is skipped: {error}"));
            })
        };
        let calling = async {
            let execution = self.execution(cause.clone(), &logger);
            let called = call_once(execution.with_pass(self.pass.clone()), handlers(), permit);
            called.await
        };
        match AssertUnwindSafe(calling).catch_unwind().await {
            Ok(Some(execution)) => {
                self.object.patch.merge_from(execution.patch.take());
                self.contribute(execution.contributions.take());
            }
            Ok(None) => {}
            // The rest of the cycle may still succeed.
            Err(panic) => self.report(&Error::Panic(describe_panic(&*panic)), None),
        }
        permit.reacquire().await;
    }

    /// Records the handlers that changed children wake up, and calls the child handlers. The next
    /// cycle writes their patch.
    pub(super) async fn call_child_handlers(
        &mut self,
        children: Vec<ChangedChild>,
        permit: &mut ObjectPermit,
    ) {
        let newest = self.object.newest.clone();
        let Some(newest) = newest.filter(|newest| newest.event != EventType::Deleted) else {
            return;
        };
        let context = Arc::clone(&self.base.context);
        for ChangedChild {
            object: child,
            is_news,
            is_owned,
        } in children
        {
            let handlers = &context.policy.handlers;
            self.object.wake(handlers.woken_by(&child.resource));
            if is_news {
                let triggered = handlers.triggered_by(&child.resource);
                self.object.trigger_by_child(triggered);
            }
            if !is_owned {
                continue;
            }
            let calling = self.call_handlers_of_child(&newest, &child, permit);
            if let Err(panic) = AssertUnwindSafe(calling).catch_unwind().await {
                // The rest of the cycle may still succeed.
                self.report(&Error::Panic(describe_panic(&*panic)), None);
            }
            permit.reacquire().await;
        }
    }

    async fn call_handlers_of_child(
        &mut self,
        newest: &Version,
        child: &Arc<OwnedObject>,
        permit: &mut ObjectPermit,
    ) {
        let context = Arc::clone(&self.base.context);
        let handlers = &context.policy.handlers;
        if handlers.child_watching.is_empty() {
            return;
        }
        let logger = self.logger(&newest.body).clone();
        let filtering = context.filtering(&self.base.memo(), &logger);
        let cause = Cause::new(Arc::clone(context.resource()), newest.body.clone());
        let failed = |error| {
            let error = Error::from(error).chain();
            let local = logger.local();
            local.error(format_args!("A child handler is skipped: {error}"));
        };
        let handlers = handlers.child_watching_for(&child.resource, &cause, &filtering, failed);
        let execution = self.execution(cause, &logger).with_child(Arc::clone(child));
        if let Some(execution) = call_once(execution, handlers, permit).await {
            self.object.patch_by_children(execution.patch.take());
            self.contribute(execution.contributions.take());
        }
    }
}

/// Calls the handlers in order, with one attempt each; `None` if there are none.
async fn call_once(
    execution: Execution,
    handlers: Vec<Arc<Handler>>,
    permit: &mut ObjectPermit,
) -> Option<Execution> {
    if handlers.is_empty() {
        return None;
    }
    permit.release();
    for handler in handlers {
        execution.once(&handler).await;
    }
    permit.reacquire().await;
    Some(execution)
}
