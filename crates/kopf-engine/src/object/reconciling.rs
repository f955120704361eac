//! The call of a reconcile handler. When it is called, and what follows, is decided by
//! `kopf_core::object::reconciling`.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use kopf_core::object::cycle::Ended;
use kopf_core::object::reconciling::{Call, Reconciling};
use kopf_core::object::{Input, Now, Version};
use kopf_core::wording;

use super::active::{Active, Relay};
use super::context::{ObjectPermit, ResourceContext};
use super::cycle::means;
use super::sessions::Sessions;
use crate::error::Error;
use crate::execution::{Execution, PriorAttempts, Reconciled, describe_panic, warn_unreadable};
use crate::invocation::Function;
use crate::logger::ObjectLogger;

/// The planned call of a reconcile handler, with its storages.
#[derive(Debug)]
pub(super) struct OpenReconciliation {
    reconciling: Reconciling,
    sessions: Sessions,
}

impl OpenReconciliation {
    /// Loads the progress of the handlers.
    pub(super) async fn load(
        context: &ResourceContext,
        mut reconciling: Reconciling,
        version: &Version,
        logger: &ObjectLogger,
    ) -> Result<(Reconciling, Sessions), Error> {
        let mut sessions = Sessions::without_essence(context);
        let ids = reconciling.ids().to_vec();
        sessions.load_progress(context, &ids, &version.body).await?;
        reconciling.load(sessions.storages(context))?;
        for error in reconciling.progress.unreadable() {
            warn_unreadable(error, logger);
        }
        Ok((reconciling, sessions))
    }

    pub(super) fn new(reconciling: Reconciling, sessions: Sessions) -> Self {
        Self {
            reconciling,
            sessions,
        }
    }
}

impl ResourceContext {
    /// Returns the current time on both clocks.
    pub(super) fn both_times(&self) -> Now {
        Now {
            moment: self.now(),
            time: self.shared.context.clock.now(),
        }
    }
}

impl Active {
    /// Calls the reconcile handler that is due, and adds its result to the patch.
    pub(super) async fn reconcile(
        &mut self,
        relay: &mut Relay,
        permit: &mut ObjectPermit,
    ) -> Input {
        let Some(mut open) = relay.reconciling.take() else {
            return Input::NoVersion;
        };
        let before = (self.object.patch.clone(), self.contributed.clone());
        let calling = AssertUnwindSafe(self.call_reconcile_handler(&mut open, relay, permit));
        let failure = match calling.catch_unwind().await {
            Ok(Ok(ended)) => return self.finished(relay, &mut open.sessions, ended, true),
            Ok(Err(error)) => error,
            Err(panic) => {
                permit.reacquire().await;
                Error::Panic(describe_panic(&*panic))
            }
        };
        self.failed(relay, before, failure)
    }

    async fn call_reconcile_handler(
        &mut self,
        open: &mut OpenReconciliation,
        relay: &mut Relay,
        permit: &mut ObjectPermit,
    ) -> Result<Ended, Error> {
        let context = Arc::clone(&self.base.context);
        let OpenReconciliation {
            reconciling,
            sessions,
        } = open;
        let logger = &self.logger(&reconciling.cause.body).clone();
        let filtering = context.filtering(&self.base.memo(), logger);
        let begun = {
            let means = means(&context, sessions, &filtering);
            reconciling.begin(means, &self.object, context.both_times())?
        };
        let patch = std::mem::take(&mut self.object.patch);
        let execution = self
            .execution(reconciling.cause.clone(), logger)
            .with_patch(patch)
            .with_pass(self.pass.clone());
        let Some(call) = begun.filter(|_| !self.pass.is_ending()) else {
            self.object.patch = execution.patch.take();
            return Ok(reconciling.postponed(&self.object, context.both_times()));
        };
        let local = logger.about(call.handler.kind);
        local.debug(wording::reconciling(call.triggers));
        permit.release();
        let reconciled = call_handler(&execution, &call).await;
        permit.reacquire().await;
        // From here on, failures must not lose the results of the handler.
        self.object.patch = execution.patch.take();
        self.contribute(execution.contributions.take());
        let Some(Reconciled { outcome, requeue }) = reconciled else {
            return Ok(reconciling.postponed(&self.object, context.both_times()));
        };
        let now = context.both_times();
        let progress = &mut reconciling.progress;
        progress.apply(&call.handler.id, &outcome, now.time);
        execution
            .attempts
            .add(&call.handler.id, progress.record(&call.handler.id));
        let mut made = execution.attempts.take();
        let body = reconciling.cause.body.clone();
        let results = &mut relay.results;
        self.refuse_annotations(
            (&body, &mut reconciling.progress),
            &mut made,
            results,
            logger,
        )?;
        let (state, metrics) = (&mut self.base.state, &context.shared.context.metrics);
        state.note_errors(metrics, &made, &reconciling.progress);
        let means = means(&context, sessions, &filtering);
        let ended = reconciling.conclude(means, &mut self.object, &call.handler, requeue, now);
        if ended.is_recorded {
            relay.results.recorded = made;
        }
        Ok(ended)
    }
}

/// Calls a handler; `None` if another replica handles the object.
async fn call_handler(execution: &Execution, call: &Call<Function>) -> Option<Reconciled> {
    let (retries, started) = call.prior;
    let prior = PriorAttempts { retries, started };
    execution
        .reconciled(&call.handler, call.triggers, prior)
        .await
}
