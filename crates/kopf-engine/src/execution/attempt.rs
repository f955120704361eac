//! One attempt of one handler: its limits, outcome and log records.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopf_core::handler::HandlerKind;
use kopf_core::outcome::{Attempt, Outcome, decide, forbidden};
use kopf_core::trigger::Triggers;
use kopf_core::wording;
use tracing::Instrument as _;

use super::call::Calling;
use super::{BlockingPool, Execution, Subs};
use crate::invocation::{
    Call, Handler, LiveBody, OperatorContext, OwnedObject, SharedPatch, Slot, Stopped, Subject,
};
use crate::logger::ObjectLogger;
use crate::memos::MemoCell;
use crate::spans;

/// The attempts of a handler before the current one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PriorAttempts {
    /// The number of attempts.
    pub(crate) retries: u32,
    /// The time of the first attempt, or now.
    pub(crate) started: Timestamp,
}

impl PriorAttempts {
    /// Returns the state before the first attempt.
    pub(crate) fn none(now: Timestamp) -> Self {
        Self {
            retries: 0,
            started: now,
        }
    }
}

/// The additional arguments of daemons and timers.
#[derive(Debug, Clone)]
pub(crate) struct RunnerHandles {
    pub(crate) stopped: Stopped,
    pub(crate) live: LiveBody,
}

/// The context of one attempt, without the handler.
#[derive(Debug)]
pub(crate) struct AttemptContext<'a> {
    context: &'a Arc<OperatorContext>,
    pool: &'a BlockingPool,
    logger: &'a ObjectLogger,
    subject: Subject,
    memo: MemoCell,
    patch: SharedPatch,
    slot: Slot,
    subs: Option<Subs>,
    runner: Option<RunnerHandles>,
    child: Option<Arc<OwnedObject>>,
    triggers: Triggers,
}

impl<'a> AttemptContext<'a> {
    /// Creates a context with the operator's memo, an empty patch and an empty slot.
    pub(crate) fn new(
        context: &'a Arc<OperatorContext>,
        pool: &'a BlockingPool,
        logger: &'a ObjectLogger,
        subject: Subject,
    ) -> Self {
        Self {
            context,
            pool,
            logger,
            subject,
            memo: context.memo.clone(),
            patch: SharedPatch::default(),
            slot: Slot::default(),
            subs: None,
            runner: None,
            child: None,
            triggers: Triggers::NONE,
        }
    }

    /// Sets the memo.
    pub(crate) fn with_memo(self, memo: MemoCell) -> Self {
        Self { memo, ..self }
    }

    /// Sets the patch.
    pub(crate) fn with_patch(self, patch: SharedPatch) -> Self {
        Self { patch, ..self }
    }

    /// Sets the slot for results that are not JSON.
    pub(crate) fn with_slot(self, slot: Slot) -> Self {
        Self { slot, ..self }
    }

    /// Calls a handler once if its limits allow, and logs the outcome.
    pub(crate) async fn attempt(self, handler: &Handler, prior: PriorAttempts) -> Outcome {
        let (context, logger) = (self.context, self.logger);
        let label = wording::label(handler.kind, &handler.id).to_string();
        let attempt = Attempt {
            label: &label,
            retrying: &handler.retrying,
            default_errors: handler.kind.default_errors(),
            default_backoff: context.settings.execution.default_backoff,
            retries: prior.retries,
            runtime: elapsed(prior.started, context.clock.now()),
        };
        let engine = logger.about(handler.kind);
        engine.debug(wording::invoked(&label));
        let attempting = context.metrics.attempt(handler, prior.retries);
        let outcome = if let Some(outcome) = forbidden(&attempt) {
            outcome
        } else {
            let span = spans::handler(handler, prior.retries);
            let calling = self.call(handler, prior, &attempt);
            let outcome = calling.instrument(span.clone()).await;
            spans::finish(&span, &outcome);
            outcome
        };
        attempting.finished(&outcome);
        let (level, message) = outcome.log(&label, handler.kind, context.style);
        let details = outcome.details.as_deref();
        engine.log_outcome(level, message, details, outcome.attachment.as_ref());
        outcome
    }

    async fn call(self, handler: &Handler, prior: PriorAttempts, attempt: &Attempt<'_>) -> Outcome {
        let (context, subs) = (Arc::clone(self.context), self.subs.clone());
        let timeout = handler.retrying.timeout;
        let time_left = timeout.map(|timeout| timeout.saturating_sub(attempt.runtime));
        let calling = Calling {
            subs: self.subs.clone(),
            pool: self.pool,
            time_left,
        };
        let prepared = self.prepare(handler, prior, attempt.runtime);
        // Boxed to keep the futures of waiting workers small.
        let result = Box::pin(calling.call(&handler.run, prepared)).await;
        if let Some(subs) = &subs {
            subs.forget();
        }
        let runtime = elapsed(prior.started, context.clock.now());
        let mut outcome = decide(attempt, runtime, result);
        if let Some(subs) = &subs {
            outcome.subrefs = subs.references();
        }
        outcome
    }

    fn prepare(self, handler: &Handler, prior: PriorAttempts, runtime: Duration) -> Call {
        let (stopped, live) = match self.runner {
            Some(RunnerHandles { stopped, live }) => (Some(stopped), Some(live)),
            None => (None, None),
        };
        Call {
            id: Arc::clone(&handler.id),
            subject: self.subject,
            param: handler.param.clone(),
            retry: prior.retries,
            started: prior.started,
            runtime,
            patch: self.patch,
            logger: self.logger.clone(),
            subs: self.subs.as_ref().map(Subs::handle),
            memo: self.memo,
            slot: self.slot,
            stopped,
            live,
            child: self.child,
            triggers: self.triggers,
            operator: Arc::clone(self.context),
        }
    }
}

impl Execution {
    /// Calls a handler without a progress record: one attempt, with the result stored in the patch.
    pub(crate) async fn once(&self, handler: &Arc<Handler>) {
        if !self.may_begin().await {
            return;
        }
        let prior = PriorAttempts::none(self.executor.context.clock.now());
        let before = self.contributions.before(&self.patch);
        let outcome = self.attempt(handler, prior, None).await;
        self.deliver(handler, &outcome);
        self.contributions.add(handler, before, &self.patch);
    }

    /// Calls a daemon or timer: one attempt, with the result stored in the patch. Counts as
    /// cancelled if another replica handles the object.
    pub(crate) async fn run_daemon(
        &self,
        handler: &Arc<Handler>,
        prior: PriorAttempts,
        runner: RunnerHandles,
    ) -> Outcome {
        let may_begin = tokio::select! {
            may_begin = self.may_begin() => may_begin,
            _ = runner.stopped.wait(None) => false,
        };
        if !may_begin {
            return Outcome::cancelled();
        }
        let context = AttemptContext {
            runner: Some(runner),
            ..self.attempt_context(handler)
        };
        let outcome = context.attempt(handler, prior).await;
        self.deliver(handler, &outcome);
        outcome
    }

    pub(super) fn deliver(&self, handler: &Handler, outcome: &Outcome) {
        if let Some(value) = &outcome.value {
            self.patch
                .with(|patch| kopf_core::results::deliver(patch, &handler.id, value.clone()));
        }
    }

    /// Calls a handler of this object once if its limits allow, and logs the outcome.
    pub(super) async fn attempt(
        &self,
        handler: &Arc<Handler>,
        prior: PriorAttempts,
        subs: Option<Subs>,
    ) -> Outcome {
        let context = AttemptContext {
            subs,
            child: self.child.clone(),
            triggers: self.triggers,
            ..self.attempt_context(handler)
        };
        context.attempt(handler, prior).await
    }

    fn attempt_context(&self, handler: &Handler) -> AttemptContext<'_> {
        let subject = Subject::Object(match &handler.filters.field {
            Some(field) if self.cause.change.is_some() => Arc::new(self.cause.reduced(field)),
            _ => Arc::clone(&self.cause),
        });
        let pool = match handler.kind {
            HandlerKind::Daemon(_) => &self.executor.daemon_pool,
            _ => &self.executor.pool,
        };
        AttemptContext::new(&self.executor.context, pool, &self.logger, subject)
            .with_memo(self.memo.clone())
            .with_patch(self.patch.clone())
            .with_slot(self.slot.clone())
    }
}

/// Returns the time since `started`; zero if `started` is in the future because of another clock.
pub(super) fn elapsed(started: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(started)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elapsed_is_never_negative() {
        let earlier = Timestamp::from_second(100).unwrap();
        let later = Timestamp::from_second(160).unwrap();
        assert_eq!(elapsed(earlier, later), Duration::from_secs(60));
        assert_eq!(elapsed(later, earlier), Duration::ZERO);
    }
}
