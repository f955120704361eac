//! The loop of one driver: waits for the next input of the state machine and feeds it.

use std::collections::VecDeque;
use std::sync::Arc;

use kopf_client::patching::PatchResponse;
use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::handler::HandlerId;
use kopf_core::object::handling::{Attempted, RunnerExits};
use kopf_core::object::{BackOffReason, Input, Machine, PendingPatch, State};
use kopf_core::patch::Patch;
use serde_json::Value;
use tokio::time::sleep_until;
use tracing::Instrument as _;

use super::ahead::IndicesWait;
use super::persisting::Unsaved;
use super::planning::Cycle;
use super::runners::Tended;
use super::stamping::Stamp;
use super::standby::StandbyOutcome;
use super::writing::Sending;
use super::{ObjectPermit, ObjectState, ResourceContext};
use crate::error::Error;
use crate::execution::Contribution;
use crate::identity::Identity;
use crate::indexing::{Blocker, ObjectKey};
use crate::inspect::{Counted, Guard};
use crate::leading::Pass;
use crate::logger::ObjectLogger;
use crate::queueing::{Mailbox, Processing as _, Queued};
use crate::spans;

/// Maximum number of transformations that event handlers can add while no patch can be sent. Beyond
/// that, events stay in the mailbox.
const MAX_BACKLOG: usize = 100;

/// One version of the object.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(super) event: EventType,
    pub(super) body: Body,
}

/// The driver of one object; see the module documentation.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(super) context: Arc<ResourceContext>,
    pub(super) mailbox: Arc<Mailbox>,
    /// The identity of the object in owner references.
    pub(super) identity: Identity,
    /// The key of the object in the indices.
    pub(super) key: ObjectKey,
    /// The permission to handle the object; `None` if another replica handles it.
    pub(super) pass: Option<Pass>,
    pub(super) state: ObjectState,
    pub(super) machine: Machine,
    guard: Guard,
    /// Held until the object is indexed for the first time.
    pub(super) blocker: Option<Blocker>,
    /// Entries that are indexed and wait until all indices are filled.
    pub(super) ahead: VecDeque<Queued>,
    pub(super) logger: Option<ObjectLogger>,
    /// The newest version of the object.
    pub(super) newest: Option<Version>,
    /// The version for indices and event handlers.
    pub(super) taken: Option<Version>,
    /// `true` if the indices contain that version.
    pub(super) is_indexed: bool,
    /// The patch of the current cycle, starting with that of event handlers.
    pub(super) patch: Patch,
    /// The origins of that patch and of the current cycle.
    pub(super) origins: Box<Origins>,
    /// The daemons and timers in the current cycle.
    pub(super) tended: Option<Box<Tended>>,
    /// The facts of the current cycle.
    pub(super) cycle: Option<Box<Cycle>>,
    /// Daemons and timers that delay the deletion of the object.
    pub(super) runner_exits: RunnerExits,
    /// The essence that the current cycle stores as handled.
    pub(super) settled: Option<Arc<Value>>,
    /// The changes of asynchronous storages that belong to the patch.
    pub(super) unsaved: Unsaved,
    /// The patch that is being sent or failed to be sent.
    pub(super) sending: Option<Box<Sending>>,
    /// The response to the last write.
    pub(super) response: Option<PatchResponse>,
    /// The last failure of the framework that is not reported yet.
    pub(super) failure: Option<Error>,
    /// Number of consecutive postponements of the cycle because of newer events.
    pub(super) postponed: usize,
}

/// The origins of the current patch and cycle. Boxed, because most drivers wait and have none.
#[derive(Debug, Default)]
pub(super) struct Origins {
    /// The parts of the patch that belong to single handlers, one for each.
    pub(super) contributed: Vec<Contribution>,
    /// The attempts of the cycle whose records are a part of the patch.
    pub(super) recorded: Vec<Attempted>,
    /// The handlers to call before their time because a child of the object has changed.
    pub(super) woken: Vec<HandlerId>,
    /// The change that came with the last write.
    pub(super) stamp: Option<Stamp>,
}

impl Driver {
    pub(crate) fn new(
        context: Arc<ResourceContext>,
        mailbox: Arc<Mailbox>,
        identity: Identity,
        mut state: ObjectState,
    ) -> Self {
        let key = ObjectKey::new(&identity, &context.resource);
        if context.is_reviewed {
            let shared = &context.shared;
            state.adopt_memo(|| shared.memos.hand_over(&key, &shared.context.memo));
        }
        let guard = context.shared.inspect.count(Counted::Working);
        let blocks = !context.indices.is_empty() && !context.is_ready();
        let blocker = blocks.then(|| context.shared.barrier.block());
        let newest = state.last.take().map(|last| *last);
        Self {
            context,
            mailbox,
            identity,
            key,
            pass: None,
            state,
            machine: Machine::awaiting_indices(),
            guard,
            blocker,
            ahead: VecDeque::new(),
            logger: None,
            newest,
            taken: None,
            is_indexed: false,
            patch: Patch::default(),
            origins: Box::default(),
            tended: None,
            cycle: None,
            runner_exits: RunnerExits::Exited,
            settled: None,
            unsaved: Unsaved::default(),
            sending: None,
            response: None,
            failure: None,
            postponed: 0,
        }
    }

    /// Drives the object until there is no pending work, until the object is deleted (returns
    /// `None`), or until the stream is stopped.
    ///
    /// There can be as many waiting drivers as objects, so state that is needed only during the
    /// work is boxed, not a part of this future, and not allocated before the permit is acquired.
    pub(crate) async fn run(mut self: Box<Self>) -> Option<ObjectState> {
        loop {
            match self.context.enter(&self.identity) {
                Some(pass) => self.take_over(pass),
                None => match Box::pin(self.stand_by()).await {
                    StandbyOutcome::Taken => {}
                    StandbyOutcome::Quiet => return Some(self.rest()),
                    StandbyOutcome::Gone => return None,
                },
            }
            match self.serve().await {
                HandlingOutcome::Quiet => return Some(self.rest()),
                HandlingOutcome::Gone => return None,
                HandlingOutcome::Stopped => return Some(self.state),
                HandlingOutcome::Left => self.leave(),
            }
        }
    }

    /// Handles the object while this replica is responsible for it.
    async fn serve(&mut self) -> HandlingOutcome {
        let context = Arc::clone(&self.context);
        if *self.machine.state() == State::AwaitingIndices
            && Box::pin(self.await_indices()).await == IndicesWait::Over
        {
            return HandlingOutcome::Quiet;
        }
        loop {
            let is_ending = self.pass.as_ref().is_none_or(Pass::is_ending);
            if is_ending && Box::pin(self.is_to_be_left()).await {
                return HandlingOutcome::Left;
            }
            if !is_ending && self.takes_events() {
                self.guard.becomes(Counted::Working);
                let _worker_permit = context.worker_permit().await;
                let permit = Box::pin(self.acquire_permit()).await;
                let span = spans::cycle(&context.resource);
                Box::pin(self.on_events(permit).instrument(span)).await;
                if *self.machine.state() == State::Gone {
                    return HandlingOutcome::Gone;
                }
                continue;
            }
            if context.shared.pause.is_paused() && !self.machine.has_unsent() {
                let _worker_permit = context.worker_permit().await;
                Box::pin(self.on_pause()).await;
            }
            let Some(deadline) = self.machine.deadline() else {
                if self.mailbox.close() {
                    return HandlingOutcome::Quiet;
                }
                continue;
            };
            self.guard.becomes(self.counted());
            tokio::select! {
                biased;
                () = context.stop.cancelled() => return HandlingOutcome::Stopped,
                () = ended(self.pass.as_ref()), if !is_ending => {}
                () = self.mailbox.arrival() => {}
                () = self.state.exit(), if self.machine.is_woken_by_exits() => {
                    self.machine.step(Input::RunnerExited, &context.rules, context.now());
                }
                () = context.shared.pause.paused(), if !self.machine.has_unsent() => {}
                () = sleep_until(context.instant(deadline)) => {
                    self.guard.becomes(Counted::Working);
                    let _worker_permit = context.worker_permit().await;
                    let permit = Box::pin(self.acquire_permit()).await;
                    let span = spans::cycle(&context.resource);
                    Box::pin(self.on_deadline(permit).instrument(span)).await;
                }
            }
        }
    }

    /// Returns the state that outlives the driver.
    fn rest(mut self: Box<Self>) -> ObjectState {
        self.state.overdue = self.machine.take_overdue().map(Box::new);
        let newest = self.newest.take();
        self.state.last = newest
            .filter(|newest| self.context.keeps(&newest.body))
            .map(Box::new);
        self.state.at_rest()
    }

    /// Returns `true` if there are events and the patch of event handlers is below its limit.
    fn takes_events(&self) -> bool {
        let is_full =
            self.patch.fns.len() >= MAX_BACKLOG && self.machine.is_held_back(self.context.now());
        let has_any =
            !self.mailbox.is_empty() || self.mailbox.is_nudged() || !self.ahead.is_empty();
        has_any && !is_full
    }

    /// Returns the state to count. Waiting for an expected event counts as work; waiting for a time
    /// does not.
    fn counted(&self) -> Counted {
        match self.machine.state() {
            State::Sleeping { .. } => Counted::Sleeping,
            State::BackingOff(wait) if *wait.reason() != BackOffReason::Conflict => {
                Counted::BackingOff
            }
            _ => Counted::Working,
        }
    }

    /// Acquires the permit of an object with events or a deadline.
    pub(super) async fn acquire_permit(&self) -> ObjectPermit {
        let listed = !self.ahead.is_empty() && self.ahead.iter().all(Queued::is_listed);
        ObjectPermit::acquire(&self.context.shared.permits, &self.mailbox, listed).await
    }

    async fn on_deadline(&mut self, mut permit: ObjectPermit) {
        // Events that arrived while waiting for the permit take precedence.
        let is_ending = self.pass.as_ref().is_none_or(Pass::is_ending);
        if self.mailbox.is_empty() || is_ending {
            self.feed(Input::Deadline, &mut permit).await;
        }
    }

    pub(super) async fn on_pause(&mut self) {
        let pending = if self.patch.is_empty() {
            PendingPatch::Empty
        } else {
            PendingPatch::Some
        };
        let mut permit = self.acquire_permit().await;
        Box::pin(self.feed(Input::Paused(pending), &mut permit)).await;
    }

    /// Feeds an input, performs the resulting actions, and feeds their results in turn.
    pub(super) async fn feed(&mut self, input: Input, permit: &mut ObjectPermit) {
        let context = Arc::clone(&self.context);
        let mut next = Some(input);
        while let Some(input) = next.take() {
            for action in self.machine.step(input, &context.rules, context.now()) {
                next = self.perform(action, permit).await;
                if next.is_some() {
                    break;
                }
            }
        }
    }

    pub(super) fn logger(&mut self, body: &Body) -> &ObjectLogger {
        let poster = &self.context.shared.poster;
        // Only the replica that handles an object posts events for it.
        let poster = self.pass.as_ref().map(|_| poster.clone());
        self.logger
            .get_or_insert_with(|| ObjectLogger::new(Arc::new(body.reference()), poster))
    }
}

/// The result of handling an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HandlingOutcome {
    /// There is no pending work.
    Quiet,
    /// The object is deleted.
    Gone,
    /// The stream is stopped.
    Stopped,
    /// Another replica handles the object.
    Left,
}

/// Waits until no more handlers may start.
async fn ended(pass: Option<&Pass>) {
    if let Some(pass) = pass {
        pass.ended().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_result<T, F: Future>(_: impl Fn(T) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn waiting_drivers_are_small() {
        let sizes = (size_of_result(Driver::run), size_of::<Driver>());
        assert!(sizes.0 <= 1024, "{sizes:?}");
        assert!(sizes.1 <= 1024, "{sizes:?}");
    }
}
