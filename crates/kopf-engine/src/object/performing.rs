//! Actions of the state machine.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use kopf_core::cause::Reason;
use kopf_core::object::{Action, Covered, Input, Message, reaches};
use kopf_core::wording;

use super::driver::{Driver, Version};
use super::{ObjectPermit, indexing, runners, watching};
use crate::error::Error;
use crate::execution::describe_panic;
use crate::spans;

impl Driver {
    /// Performs one action. Returns its result if the state machine waits for it.
    pub(super) async fn perform(
        &mut self,
        action: Action,
        permit: &mut ObjectPermit,
    ) -> Option<Input> {
        match action {
            Action::Index => self.index(permit).await,
            Action::CallEventHandlers => self.call_event_handlers(permit).await,
            Action::TendRunners => return self.tend_runners(permit).await,
            Action::Plan => {
                let input = self.plan(permit).await;
                self.count_cycle(&input);
                return Some(input);
            }
            Action::Run(reason) => return Some(self.run_handlers(reason, permit).await),
            Action::Write(change) => return Some(self.write(change, permit).await),
            Action::Resend => return Some(self.send(permit).await),
            Action::Touch => return Some(self.touch(permit).await),
            Action::Record => self.record_refused(permit).await,
            Action::DropUnsent => {
                self.sending = None;
                self.state.carried.clear();
                let is_finished = self.state.release.is_some();
                self.report_only(Error::Dropped { is_finished });
            }
            Action::AdoptResponse => self.adopt_response(),
            Action::DropCarried => self.state.carried.clear(),
            Action::Cover => self.cover(),
            Action::Log(message) => self.log(message),
            Action::ReportFailure(retry_in) => self.report(retry_in),
            Action::Forget => self.forget(),
        }
        None
    }

    /// Counts the cycle and adds its facts to its span.
    fn count_cycle(&self, input: &Input) {
        let Input::Planned(facts) = input else { return };
        if let Some(metrics) = &self.context.metrics {
            metrics.cycle(facts.reason);
        }
        if let Some(version) = &self.newest {
            spans::describe(&version.body, facts.reason);
        }
    }

    async fn index(&mut self, permit: &mut ObjectPermit) {
        if self.context.indices.is_empty() || self.is_indexed {
            return;
        }
        let Some(Version { event, body }) = self.taken.clone() else {
            return;
        };
        let logger = self.logger(&body).clone();
        let context = Arc::clone(&self.context);
        let version = indexing::Indexed {
            key: &self.key,
            event,
            body: &body,
            logger: &logger,
            replica: match self.pass {
                Some(_) => indexing::HandlingReplica::This,
                None => indexing::HandlingReplica::Other,
            },
        };
        let indexing = indexing::index(&context, &mut self.state, version, permit);
        if let Err(panic) = AssertUnwindSafe(indexing).catch_unwind().await {
            // The rest of the cycle and the next version may still succeed.
            self.report_only(Error::Panic(describe_panic(&*panic)));
        }
        permit.reacquire().await;
    }

    async fn call_event_handlers(&mut self, permit: &mut ObjectPermit) {
        if self.context.handlers.watching.is_empty() {
            return;
        }
        let Some(Version { event, body }) = self.taken.clone() else {
            return;
        };
        let context = Arc::clone(&self.context);
        let logger = self.logger(&body).clone();
        let memo = self.state.memo(&context.shared.context.memo);
        let Some(pass) = self.pass.clone() else {
            return;
        };
        let watching = watching::watch(&context, event, &body, memo, pass, &logger, permit);
        match AssertUnwindSafe(watching).catch_unwind().await {
            Ok((patch, contributions)) => {
                self.patch.merge_from(patch);
                self.contribute(contributions);
            }
            // The rest of the cycle may still succeed.
            Err(panic) => self.report_only(Error::Panic(describe_panic(&*panic))),
        }
        permit.reacquire().await;
    }

    async fn tend_runners(&mut self, permit: &mut ObjectPermit) -> Option<Input> {
        let (Some(Version { event, body }), Some(pass)) = (self.newest.clone(), self.pass.clone())
        else {
            return Some(Input::NoVersion);
        };
        let logger = self.logger(&body).clone();
        let context = Arc::clone(&self.context);
        let version = runners::Tending {
            event,
            body: &body,
            logger: &logger,
            pass: &pass,
        };
        let tending = runners::tend(&context, &mut self.state, version, permit);
        let failure = match AssertUnwindSafe(tending).catch_unwind().await {
            Ok(Ok(tended)) => {
                self.tended = Some(Box::new(tended));
                return None;
            }
            Ok(Err(error)) => error,
            Err(panic) => Error::Panic(describe_panic(&*panic)),
        };
        self.failure = Some(failure);
        Some(Input::Failed)
    }

    /// Continues with the response to the last write if it is newer than the newest version.
    pub(super) fn adopt_response(&mut self) {
        let Some(response) = self.response.take() else {
            return;
        };
        let known = self
            .newest
            .as_ref()
            .and_then(|newest| newest.body.resource_version());
        let is_known = match (known, response.part().resource_version()) {
            (Some(known), Some(version)) => reaches(known, version),
            _ => false,
        };
        let managed = self.context.shared.context.managed_fields;
        if !is_known && let Ok(body) = response.body_with(managed) {
            let event = kopf_core::cause::EventType::Modified;
            self.newest = Some(Version { event, body });
        }
    }

    /// Ignores events up to the version of the last write.
    fn cover(&mut self) {
        let now = self.context.now();
        let until = now.after(self.context.rules.echo_timeout);
        let response = self.response.take();
        let version = response
            .as_ref()
            .and_then(|response| response.part().resource_version());
        self.state.covered = version.and_then(|version| Covered::new(version, until));
        let state = &self.state;
        self.mailbox.discard(|entry| state.covers(entry, now));
    }

    fn log(&mut self, message: Message) {
        let Some(logger) = &self.logger else { return };
        let local = logger.local();
        match message {
            Message::Unhandled(Reason::Gone) => logger.debug(wording::GONE),
            Message::Unhandled(Reason::Free) => logger.debug(wording::FREE),
            Message::Unhandled(_) => logger.debug(wording::NOOP),
            Message::AddingFinalizer => local.debug(wording::ADDING_FINALIZER),
            Message::DroppingFinalizer => local.debug(wording::DROPPING_FINALIZER),
            Message::RemovingFinalizer => local.debug(wording::REMOVING_FINALIZER),
            Message::Sleeping(delay) => local.debug(wording::sleeping(delay)),
            Message::SleepingSkipped(delay) => local.debug(wording::sleeping_skipped(delay)),
            Message::SleepingInterrupted(left) => {
                local.debug(wording::sleeping_interrupted(left));
            }
            Message::CycleFinished => local.debug(wording::CYCLE_FINISHED),
            Message::PatchSkipped => local.debug(wording::PATCH_SKIPPED),
            Message::ThrottlingOver => local.info(wording::THROTTLING_OVER),
            Message::Stalled(delay) => local.warning(wording::stalled(delay)),
            Message::Stamped(delay) => self.log_stamp(&local, delay),
            Message::FinalizerReverted(delay) => {
                let finalizer = &self.context.shared.context.settings.persistence.finalizer;
                local.warning(wording::finalizer_reverted(finalizer, delay));
            }
        }
    }
}
