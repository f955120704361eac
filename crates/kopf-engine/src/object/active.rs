//! The active phase of an object: its events, and the actions of its state machine.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kopf_client::patching::PatchResponse;
use kopf_core::body::Body;
use kopf_core::cause::{Cause, EventType, Reason};
use kopf_core::lenient::DEPTH_LIMIT;
use kopf_core::object::cycle::Cycle;
use kopf_core::object::handling::Attempted;
use kopf_core::object::{Action, Input, Message, Object, Runners, Version, WritePlan};
use kopf_core::wording;
use serde_json::Value;

use super::context::{HandlingReplica, ObjectPermit, ResourceContext};
use super::reconciling::OpenReconciliation;
use super::sessions::{Sessions, Unsaved};
use super::state::ObjectState;
use crate::error::Error;
use crate::execution::{Contribution, Execution};
use crate::identity::Identity;
use crate::indexing::ObjectKey;
use crate::inspect::Guard;
use crate::leading::Pass;
use crate::logger::ObjectLogger;
use crate::mailbox::{Mailbox, Queued};
use crate::memos::MemoCell;
use crate::patching::Pending;
use crate::spans;

/// Maximum number of consecutive postponements of a cycle because of newer events.
const MAX_POSTPONED: usize = 16;

/// The data that all phases of an object share.
#[derive(Debug)]
pub(super) struct Base {
    pub(super) context: Arc<ResourceContext>,
    pub(super) mailbox: Arc<Mailbox>,
    /// The identity of the object in owner references.
    pub(super) identity: Identity,
    /// The key of the object in the indices.
    pub(super) key: ObjectKey,
    pub(super) state: ObjectState,
    pub(super) guard: Guard,
}

impl Base {
    pub(super) fn memo(&mut self) -> MemoCell {
        self.state.memo(&self.context.shared.context.memo)
    }

    /// Logs a failure of the framework, with the time after which the cycle is repeated.
    pub(super) fn report(
        &self,
        error: &Error,
        retry_in: Option<Duration>,
        logger: Option<&ObjectLogger>,
    ) {
        let logger = logger.map(ObjectLogger::local);
        if let (Error::NotHeld, Some(logger)) = (error, &logger) {
            // Not a failure: the replica that holds the Lease goes on.
            logger.warning(error.chain());
            return;
        }
        if let (Some(metrics), Some(_)) = (&self.context.metrics, retry_in) {
            metrics.cycle_failed();
        }
        let error = error.chain();
        let Some(logger) = logger else {
            let resource = self.context.resource();
            tracing::error!("An object of {resource} is not processed: {error}");
            return;
        };
        match retry_in {
            Some(delay) => logger.error(wording::throttling(delay, error)),
            None => logger.error(format_args!("Processing has failed: {error}")),
        }
    }
}

/// An object that this replica handles. Dropped when another replica takes over.
#[derive(Debug)]
pub(super) struct Active {
    pub(super) base: Base,
    /// The permission to handle the object.
    pub(super) pass: Pass,
    /// The state machine with its data.
    pub(super) object: Object,
    /// Entries that were indexed before all indices were filled.
    pub(super) ahead: VecDeque<Queued>,
    /// Created for the first version.
    pub(super) logger: Option<ObjectLogger>,
    /// The parts of the object's patch that belong to single handlers, one for each.
    pub(super) contributed: Vec<Contribution>,
    /// The patch that could not be sent.
    pub(super) unsent: Option<Box<Sending>>,
    /// The response to the last write, until its event arrives.
    pub(super) response: Option<PatchResponse>,
    /// Number of consecutive postponements of the cycle because of newer events.
    postponed: usize,
}

/// The data that the actions of one input pass to each other.
#[derive(Debug, Default)]
pub(super) struct Relay {
    /// The version that has arrived, for indices and event handlers.
    arrived: Option<Version>,
    /// The indices contain that version.
    is_indexed: bool,
    /// The planned cycle.
    pub(super) cycle: Option<Box<OpenCycle>>,
    /// The planned call of a reconcile handler.
    pub(super) reconciling: Option<Box<OpenReconciliation>>,
    /// The results of the handlers, to be written with the patch.
    pub(super) results: Results,
    /// The last failure of the framework, to be reported.
    pub(super) failure: Option<Error>,
}

/// A planned cycle with its storages.
#[derive(Debug)]
pub(super) struct OpenCycle {
    pub(super) cycle: Cycle,
    pub(super) sessions: Sessions,
    pub(super) runners: Runners,
}

/// The results of the handlers of a cycle, beside the patch.
#[derive(Debug, Default)]
pub(super) struct Results {
    /// The changes of asynchronous storages.
    pub(super) unsaved: Unsaved,
    /// The attempts whose records are a part of the patch.
    pub(super) recorded: Vec<Attempted>,
    /// The essence that is stored as handled.
    pub(super) settled: Option<Arc<Value>>,
}

/// A patch that is being sent or failed to be sent.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) plan: WritePlan,
    /// The changes that asynchronous storages save before the patch is sent. Saving may add to it.
    pub(super) unsaved: Unsaved,
    /// The requests of the patch, once the changes are saved.
    pub(super) pending: Option<Pending>,
    /// The parts of the patch that belong to single handlers.
    pub(super) contributed: Vec<Contribution>,
    /// The attempts whose records are a part of the patch.
    pub(super) recorded: Vec<Attempted>,
}

impl Active {
    /// Begins to handle the object.
    pub(super) fn new(mut base: Base, pass: Pass, ahead: VecDeque<Queued>) -> Self {
        let memory = std::mem::take(&mut base.state.memory);
        let newest = base.state.last.take().map(|last| *last);
        Self {
            object: Object::new(memory, newest),
            base,
            pass,
            ahead,
            logger: None,
            contributed: Vec::new(),
            unsent: None,
            response: None,
            postponed: 0,
        }
    }

    /// Takes all queued versions, passes them to indices and event handlers, and runs a cycle for
    /// the newest one.
    pub(super) async fn on_events(&mut self, mut permit: ObjectPermit) {
        let mut drained = self.base.mailbox.drain();
        let now = self.base.context.now();
        for version in std::mem::take(&mut drained.superseded) {
            self.feed(Input::Superseded { version }, &mut permit).await;
        }
        let covered = self.object.memory.covered;
        drained
            .entries
            .retain(|entry| !entry.is_covered(covered, now));
        let ahead = std::mem::take(&mut self.ahead);
        let indexed = ahead.len();
        let count = indexed + drained.entries.len();
        if count == 0 && !self.base.context.is_owner() {
            return;
        }
        for (position, entry) in ahead.into_iter().chain(drained.entries).enumerate() {
            let taken = Taken {
                is_newest: position + 1 == count,
                is_indexed: position < indexed,
            };
            self.take(entry, taken, &mut permit).await;
        }
        let inbox = self.base.context.inbox.as_ref();
        let children = inbox.map_or_else(Vec::new, |inbox| inbox.take(&self.base.identity));
        if count == 0 && children.is_empty() {
            return;
        }
        self.call_child_handlers(children, &mut permit).await;
        self.on_newest(&mut permit).await;
    }

    async fn take(&mut self, entry: Queued, taken: Taken, permit: &mut ObjectPermit) {
        let context = Arc::clone(&self.base.context);
        let Queued::Event {
            event,
            version,
            raw,
        } = entry
        else {
            if let Some(newest) = &self.object.newest {
                context.notify_owners(EventType::Deleted, &newest.body);
            }
            return self.feed(Input::Vanished, permit).await;
        };
        if !taken.is_newest && !context.keeps_every_version() {
            // Superseded versions are only processed by event handlers and indices.
            if let Some(version) = version {
                self.feed(Input::Superseded { version }, permit).await;
            }
            return;
        }
        let body = match self.parse(&raw) {
            Ok(body) => body,
            Err(error) => return self.unreadable(error, event, taken, permit).await,
        };
        let now = context.now();
        let is_admitted = self.object.admits(event, version.as_deref(), now);
        // Owners that are reconciled know it already, if it has arrived before all indices were filled.
        if !taken.is_indexed || !context.policy.handlers.is_reconciled {
            context.notify_owners(event, &body);
        }
        let arrived = Version { event, body };
        let relay = Relay {
            arrived: Some(arrived.clone()),
            is_indexed: taken.is_indexed,
            ..Relay::default()
        };
        let input = Input::Event { event, version };
        self.feed_with(input, relay, permit).await;
        if is_admitted {
            self.object.newest = Some(arrived);
        }
        if let (Some(background), Some(newest)) = (&self.base.state.background, &self.object.newest)
        {
            background.refresh(&newest.body);
        }
    }

    fn parse(&mut self, raw: &Bytes) -> Result<Body, Error> {
        let managed = self.base.context.shared.context.managed_fields;
        let (body, cut) = Body::parse_with(raw, managed)?;
        if cut > 0 {
            self.logger(&body).warning(format_args!(
                "Values of the object are nested deeper than {DEPTH_LIMIT} levels, and \
                 are null for the operator: {cut}."
            ));
        }
        Ok(body)
    }

    /// Handles a version that cannot be parsed. A deleted object is dropped; otherwise the next
    /// version is awaited.
    async fn unreadable(
        &mut self,
        error: Error,
        event: EventType,
        taken: Taken,
        permit: &mut ObjectPermit,
    ) {
        if event != EventType::Deleted && taken.is_newest {
            let relay = Relay {
                failure: Some(error),
                ..Relay::default()
            };
            return self.feed_with(Input::Failed, relay, permit).await;
        }
        self.report(&error, None);
        if event == EventType::Deleted {
            self.feed(Input::Vanished, permit).await;
        }
    }

    async fn on_newest(&mut self, permit: &mut ObjectPermit) {
        let Some(newest) = &self.object.newest else {
            return;
        };
        let (event, context) = (newest.event, &self.base.context);
        if context.only_notifies_owners() && event != EventType::Deleted {
            return;
        }
        // Event handlers may have been slow, and change handlers need only the newest version.
        let gives_way = context.keeps_every_version() && !self.base.mailbox.is_empty();
        if event != EventType::Deleted && gives_way && self.postponed < MAX_POSTPONED {
            self.postponed += 1;
            return;
        }
        self.postponed = 0;
        let snapshot = newest.snapshot();
        self.feed(Input::Newest { event, snapshot }, permit).await;
    }

    /// Feeds an input, performs the resulting actions, and feeds their results in turn.
    pub(super) async fn feed(&mut self, input: Input, permit: &mut ObjectPermit) {
        self.feed_with(input, Relay::default(), permit).await;
    }

    async fn feed_with(&mut self, input: Input, mut relay: Relay, permit: &mut ObjectPermit) {
        let context = Arc::clone(&self.base.context);
        let mut next = Some(input);
        while let Some(input) = next.take() {
            for action in self.object.step(input, &context.rules, context.now()) {
                next = self.perform(action, &mut relay, permit).await;
                if next.is_some() {
                    break;
                }
            }
        }
    }

    /// Performs one action. Returns its result if the state machine waits for it.
    async fn perform(
        &mut self,
        action: Action,
        relay: &mut Relay,
        permit: &mut ObjectPermit,
    ) -> Option<Input> {
        match action {
            Action::Index => self.index(relay, permit).await,
            Action::CallEventHandlers => {
                if let Some(version) = relay.arrived.take() {
                    self.call_event_handlers(&version, permit).await;
                }
            }
            Action::Plan => {
                let input = self.plan(relay, permit).await;
                self.count_cycle(&input);
                return Some(input);
            }
            Action::Run(_) => return Some(self.run_handlers(relay, permit).await),
            Action::Reconcile => return Some(self.reconcile(relay, permit).await),
            Action::Write(change) => return Some(self.write(change, relay, permit).await),
            Action::Resend => return Some(self.resend(relay, permit).await),
            Action::Touch => return Some(self.touch(relay, permit).await),
            Action::Record => self.record_refused(relay.failure.as_ref(), permit).await,
            Action::DropUnsent => {
                self.unsent = None;
                let is_finished = self.object.memory.release.is_some();
                self.report(&Error::Dropped { is_finished }, None);
            }
            Action::AdoptResponse => self.adopt_response(),
            Action::Cover(covered) => {
                let now = self.base.context.now();
                self.response = None;
                let mailbox = &self.base.mailbox;
                mailbox.discard(|entry| entry.is_covered(covered, now));
            }
            Action::Log(message) => self.log(message),
            Action::ReportFailure(retry_in) => {
                if let Some(error) = relay.failure.take() {
                    self.report(&error, retry_in);
                }
            }
            Action::Forget => self.forget(relay.is_indexed),
        }
        None
    }

    async fn index(&mut self, relay: &Relay, permit: &mut ObjectPermit) {
        let Some(version) = relay.arrived.as_ref().filter(|_| !relay.is_indexed) else {
            return;
        };
        if !self.base.context.indices.is_empty() {
            let logger = self.logger(&version.body).clone();
            let replica = HandlingReplica::This;
            self.base.index(version, replica, &logger, permit).await;
        }
    }

    /// Counts the cycle and adds its facts to its span.
    fn count_cycle(&self, input: &Input) {
        let Input::Planned(facts) = input else { return };
        if let Some(metrics) = &self.base.context.metrics {
            metrics.cycle(facts.reason);
        }
        if let Some(version) = &self.object.newest {
            spans::describe(&version.body, facts.reason);
        }
    }

    /// Continues with the response to the last write if it is newer than the newest version.
    pub(super) fn adopt_response(&mut self) {
        let Some(response) = self.response.take() else {
            return;
        };
        let managed = self.base.context.shared.context.managed_fields;
        let version = response.part().resource_version();
        let body = || response.body_with(managed).ok();
        self.object.adopt(version, body);
    }

    /// Drops the state of the object, except that of a version that is indexed already.
    fn forget(&mut self, is_indexed: bool) {
        let mut state = ObjectState::default();
        if is_indexed {
            state.indexing = self.base.state.indexing.take();
        } else {
            self.base.context.indices.discard(&self.base.key);
        }
        self.base.state = state;
        self.logger = None;
        self.contributed.clear();
        self.unsent = None;
        self.response = None;
    }

    pub(super) fn logger(&mut self, body: &Body) -> &ObjectLogger {
        let poster = &self.base.context.shared.poster;
        self.logger.get_or_insert_with(|| {
            ObjectLogger::new(Arc::new(body.reference()), Some(poster.clone()))
        })
    }

    /// Returns the means to call handlers.
    pub(super) fn execution(&mut self, cause: Cause, logger: &ObjectLogger) -> Execution {
        let memo = self.base.memo();
        let executor = &self.base.context.shared.executor;
        Execution::new(executor, cause, logger.clone(), memo)
    }

    /// Logs a failure of the framework.
    pub(super) fn report(&self, error: &Error, retry_in: Option<Duration>) {
        self.base.report(error, retry_in, self.logger.as_ref());
    }

    fn log(&self, message: Message) {
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
            Message::Stamped(delay) => {
                if let Some(stamp) = self.object.machine.stamp() {
                    let field = stamp.field.to_string();
                    local.warning(wording::stamped(&field, stamp.manager.as_deref(), delay));
                }
            }
            Message::FinalizerReverted(delay) => {
                let finalizer = self.base.context.finalizer();
                local.warning(wording::finalizer_reverted(finalizer, delay));
            }
        }
    }
}

/// The position of an entry among those that are taken together.
#[derive(Clone, Copy)]
struct Taken {
    is_newest: bool,
    is_indexed: bool,
}
