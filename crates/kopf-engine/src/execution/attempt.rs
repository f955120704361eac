//! One attempt of one handler: may it run, what came out, what does that mean.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopf_core::handler::HandlerKind;
use kopf_core::outcome::{Attempt, Outcome, decide, forbidden};
use kopf_core::wording;

use super::call::call;
use super::{BlockingPool, Execution, SubHandlers};
use crate::background::{LiveBody, Stopped};
use crate::invocation::{Call, Handler, OperatorContext, SharedPatch, Slot, Subject};
use crate::logger::ObjectLogger;
use crate::memos::MemoCell;

/// What is known of the attempts before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    pub(crate) retries: u32,
    pub(crate) started: Timestamp,
}

/// What a handler is tried with.
#[derive(Debug)]
pub(crate) struct Trial<'a> {
    pub(crate) context: &'a Arc<OperatorContext>,
    pub(crate) pool: &'a BlockingPool,
    pub(crate) logger: &'a ObjectLogger,
    pub(crate) subject: Subject,
    pub(crate) patch: SharedPatch,
    pub(crate) subs: Option<SubHandlers>,
    pub(crate) memo: MemoCell,
    /// Where results go that are no JSON.
    pub(crate) slot: Slot,
    /// What those get that run beside the object.
    pub(crate) beside: Option<(Stopped, LiveBody)>,
}

impl Trial<'_> {
    /// Runs a handler once, if its limits allow, and says in the log how it went.
    pub(crate) async fn attempt(self, handler: &Handler, before: Before) -> Outcome {
        let (context, logger) = (self.context, self.logger);
        let label = wording::label(handler.kind, &handler.id).to_string();
        let attempt = Attempt {
            label: &label,
            retrying: &handler.retrying,
            default_errors: handler.kind.default_errors(),
            default_backoff: context.settings.execution.default_backoff,
            retries: before.retries,
            runtime: elapsed(before.started, context.clock.now()),
        };
        let engine = logger.about(handler.kind);
        engine.debug(wording::invoked(&label));
        let outcome = if let Some(outcome) = forbidden(&attempt) {
            outcome
        } else {
            let (stopped, live) = self.beside.unzip();
            let prepared = Call {
                id: Arc::clone(&handler.id),
                subject: self.subject,
                param: handler.param.clone(),
                retry: before.retries,
                started: before.started,
                runtime: attempt.runtime,
                patch: self.patch,
                logger: logger.clone(),
                subs: self.subs.clone(),
                memo: self.memo,
                slot: self.slot,
                stopped,
                live,
                operator: Arc::clone(context),
            };
            let time_left = handler
                .retrying
                .timeout
                .map(|timeout| timeout.saturating_sub(attempt.runtime));
            let result = call(&handler.run, prepared, self.pool, time_left).await;
            if let Some(subs) = &self.subs {
                subs.forget();
            }
            let runtime = elapsed(before.started, context.clock.now());
            let mut outcome = decide(&attempt, runtime, result);
            if let Some(subs) = &self.subs {
                outcome.subrefs = subs.references();
            }
            outcome
        };
        let (level, message) = outcome.log(&label);
        match &outcome.details {
            Some(details) => engine.error_with(message, details),
            None => engine.log(level, message),
        }
        outcome
    }
}

impl Execution {
    /// Runs a handler that has no progress: one attempt, the value goes to the patch.
    pub(crate) async fn once(&self, handler: &Arc<Handler>) {
        let before = Before {
            retries: 0,
            started: self.shared.context.clock.now(),
        };
        let outcome = self.attempt(handler, before, None).await;
        self.deliver(handler, &outcome);
    }

    /// Runs a handler that runs beside the object: one attempt, the value goes to the patch.
    pub(crate) async fn beside(
        &self,
        handler: &Arc<Handler>,
        before: Before,
        stopped: Stopped,
        live: LiveBody,
    ) -> Outcome {
        let trial = Trial {
            beside: Some((stopped, live)),
            ..self.trial(handler)
        };
        let outcome = trial.attempt(handler, before).await;
        self.deliver(handler, &outcome);
        outcome
    }

    pub(super) fn deliver(&self, handler: &Handler, outcome: &Outcome) {
        if let Some(value) = &outcome.value {
            self.patch
                .with(|patch| kopf_core::results::deliver(patch, &handler.id, value.clone()));
        }
    }

    /// Runs a handler of this object once, if its limits allow, and says in the log how it went.
    pub(super) async fn attempt(
        &self,
        handler: &Arc<Handler>,
        before: Before,
        subs: Option<SubHandlers>,
    ) -> Outcome {
        let trial = Trial {
            subs,
            ..self.trial(handler)
        };
        trial.attempt(handler, before).await
    }

    fn trial(&self, handler: &Handler) -> Trial<'_> {
        let subject = Subject::Object(match &handler.filters.field {
            Some(field) if self.cause.change.is_some() => Arc::new(self.cause.reduced(field)),
            _ => Arc::clone(&self.cause),
        });
        Trial {
            context: &self.shared.context,
            // Daemons would keep the threads of all others for as long as their objects live.
            pool: match handler.kind {
                HandlerKind::Daemon(_) => &self.shared.daemon_pool,
                _ => &self.shared.pool,
            },
            logger: &self.logger,
            subject,
            patch: self.patch.clone(),
            subs: None,
            memo: self.memo.clone(),
            slot: self.slot.clone(),
            beside: None,
        }
    }
}

/// Clocks of the past may have been ahead of ours.
pub(super) fn elapsed(started: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(started)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_run_backwards() {
        let earlier = Timestamp::from_second(100).unwrap();
        let later = Timestamp::from_second(160).unwrap();
        assert_eq!(elapsed(earlier, later), Duration::from_secs(60));
        assert_eq!(elapsed(later, earlier), Duration::ZERO);
    }
}
