//! The phases of one driver: what happens to an object while it has pending work.
//!
//! An object of another replica is [`Standby`](Phase::Standby): it is only indexed. The replica that
//! handles it waits for the [indices](Phase::AwaitingIndices) of the operator to be filled. Then it
//! is [`Active`](Phase::Active). Each phase owns its data, and ends by becoming another one.

use std::collections::VecDeque;
use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::finalizer;
use kopf_core::object::{BackOffReason, Input, State, Version};
use tokio::time::sleep_until;
use tracing::Instrument as _;

use super::active::{Active, Base};
use super::context::{HandlingReplica, ObjectPermit, ResourceContext};
use super::state::ObjectState;
use crate::identity::Identity;
use crate::indexing::{Blocker, ObjectKey};
use crate::inspect::Counted;
use crate::leading::Pass;
use crate::logger::ObjectLogger;
use crate::mailbox::{Mailbox, Queued};
use crate::spans;

/// Maximum number of transformations that event handlers can add while no patch can be sent. Beyond
/// that, events stay in the mailbox.
const MAX_BACKLOG: usize = 100;

/// The driver of one object; see the module documentation.
#[derive(Debug)]
pub(crate) struct Driver(Phase);

/// The phase of an object. Boxed, because there can be as many waiting drivers as objects.
#[derive(Debug)]
enum Phase {
    Standby(Box<Standby>),
    AwaitingIndices(Box<AwaitingIndices>),
    Active(Box<Active>),
}

/// The end of a phase.
enum Next {
    Enter(Phase),
    /// There is no pending work, or the stream is stopped.
    Quiet(Box<ObjectState>),
    /// The object is deleted.
    Gone,
}

/// An object that another replica handles: it is only indexed here.
#[derive(Debug)]
struct Standby {
    base: Base,
    /// Held until the object is indexed for the first time.
    blocker: Option<Blocker>,
}

/// An object that is indexed and waits until all indices are filled. It holds neither an object
/// permit nor a worker permit, so small limits cannot cause a deadlock.
#[derive(Debug)]
struct AwaitingIndices {
    base: Base,
    pass: Pass,
    /// Held until the object is indexed for the first time.
    blocker: Option<Blocker>,
    /// Entries that are indexed and wait until all indices are filled.
    ahead: VecDeque<Queued>,
}

impl Driver {
    pub(crate) fn new(
        context: &Arc<ResourceContext>,
        mailbox: &Arc<Mailbox>,
        identity: Identity,
        mut state: ObjectState,
    ) -> Self {
        let key = ObjectKey::new(&identity, context.resource());
        let shared = &context.shared;
        if context.is_reviewed {
            state.adopt_memo(|| shared.memos.hand_over(&key, &shared.context.memo));
        }
        let blocks = context.is_awaited() && !context.is_ready();
        let blocker = blocks.then(|| shared.barrier.block());
        let base = Base {
            guard: shared.inspect.count(Counted::Working),
            context: Arc::clone(context),
            mailbox: Arc::clone(mailbox),
            identity,
            key,
            state,
        };
        Self(base.enter(blocker))
    }

    /// Drives the object until there is no pending work, until the object is deleted (returns
    /// `None`), or until the stream is stopped.
    pub(crate) async fn run(self) -> Option<ObjectState> {
        let mut phase = self.0;
        loop {
            let next = match phase {
                Phase::Standby(standby) => Box::pin(standby.run()).await,
                Phase::AwaitingIndices(waiting) => Box::pin(waiting.run()).await,
                Phase::Active(active) => active.run().await,
            };
            match next {
                Next::Enter(next) => phase = next,
                Next::Quiet(state) => return Some(state.at_rest()),
                Next::Gone => return None,
            }
        }
    }
}

impl Base {
    /// Returns the first phase of the object.
    fn enter(self, blocker: Option<Blocker>) -> Phase {
        if let Some(pass) = self.context.enter(&self.identity) {
            return self.take_over(pass, blocker);
        }
        let base = self;
        Phase::Standby(Box::new(Standby { base, blocker }))
    }

    /// Begins to handle the object.
    fn take_over(mut self, pass: Pass, blocker: Option<Blocker>) -> Phase {
        let number = pass.number();
        if self.state.tenure != 0 && self.state.tenure != number {
            self.state.hand_over();
        }
        self.state.tenure = number;
        if self.context.is_ready() {
            return Phase::Active(Box::new(Active::new(self, pass, VecDeque::new())));
        }
        Phase::AwaitingIndices(Box::new(AwaitingIndices {
            base: self,
            pass,
            blocker,
            ahead: VecDeque::new(),
        }))
    }

    /// Acquires the permit of an object with events or a deadline.
    async fn acquire_permit(&self, ahead: &VecDeque<Queued>) -> ObjectPermit {
        let listed = !ahead.is_empty() && ahead.iter().all(Queued::is_listed);
        ObjectPermit::acquire(&self.context.shared.permits, &self.mailbox, listed).await
    }

    /// Removes a deleted object from the indices.
    fn unindex(&mut self) {
        self.context.indices.discard(&self.key);
        self.state.indexing = None;
    }
}

impl Standby {
    /// Indexes queued entries until there are none, or until this replica handles the object.
    async fn run(mut self: Box<Self>) -> Next {
        let context = Arc::clone(&self.base.context);
        let mut is_gone = false;
        loop {
            if let Some(pass) = context.enter(&self.base.identity) {
                return Next::Enter(self.base.take_over(pass, self.blocker));
            }
            if !self.base.mailbox.is_empty() {
                let _worker_permit = context.worker_permit().await;
                let mut permit = self.base.acquire_permit(&VecDeque::new()).await;
                while let Some(entry) = self.base.mailbox.pop() {
                    is_gone = !entry.is_alive();
                    Box::pin(self.index(entry, &mut permit)).await;
                }
            }
            self.blocker = None;
            if self.base.mailbox.close() {
                return if is_gone {
                    Next::Gone
                } else {
                    Next::Quiet(Box::new(self.base.state))
                };
            }
        }
    }

    async fn index(&mut self, entry: Queued, permit: &mut ObjectPermit) {
        let base = &mut self.base;
        // If this replica takes over the object, resume handlers are called.
        base.state.memory.noticed_by_listing = true;
        let is_owned = base.context.policy.handlers.is_owned;
        if !base.context.is_indexed_globally() && !is_owned {
            return;
        }
        let Queued::Event { event, raw, .. } = entry else {
            if let Some(last) = base.state.last.take() {
                base.context.notify_owners(EventType::Deleted, &last.body);
            }
            return base.unindex();
        };
        match Body::parse_with(&raw, base.context.shared.context.managed_fields) {
            Ok((body, _)) => {
                // Only the replica that handles an object posts events for it.
                let logger = ObjectLogger::new(Arc::new(body.reference()), None);
                // The owner can belong to this replica.
                base.context.notify_owners(event, &body);
                let version = Version { event, body };
                let replica = HandlingReplica::Other;
                if base.context.is_indexed_globally() {
                    base.index(&version, replica, &logger, permit).await;
                }
                let is_kept = event != EventType::Deleted && base.context.keeps(&version.body);
                base.state.last = (is_owned && is_kept).then(|| Box::new(version));
            }
            Err(error) => base.report(&error.into(), None, None),
        }
        if event == EventType::Deleted {
            base.state.indexing = None;
        }
    }
}

impl AwaitingIndices {
    /// Waits until all indices are filled. Meanwhile, the object is only indexed.
    async fn run(mut self: Box<Self>) -> Next {
        let context = Arc::clone(&self.base.context);
        let is_indexed = context.is_awaited();
        while !context.is_ready() {
            if is_indexed {
                if self.indexes_ahead() && !self.base.mailbox.is_empty() {
                    let _worker_permit = context.worker_permit().await;
                    let mut permit = self.base.acquire_permit(&self.ahead).await;
                    Box::pin(self.index_ahead(&mut permit)).await;
                }
                self.blocker = None;
                if self.ahead.is_empty() {
                    self.base.mailbox.drop_nudge();
                    if self.base.mailbox.close() {
                        return Next::Quiet(Box::new(self.base.state));
                    }
                    continue;
                }
            }
            tokio::select! {
                biased;
                () = context.stop.cancelled() => return Next::Quiet(Box::new(self.base.state)),
                () = context.ready() => {}
                // The next entry determines whether the object is indexed ahead.
                () = self.base.mailbox.arrival(), if is_indexed => {}
            }
        }
        let active = Active::new(self.base, self.pass, self.ahead);
        Next::Enter(Phase::Active(Box::new(active)))
    }

    /// Returns `true` if the next version is indexed before all indices are filled. Event handlers
    /// are called with every version and must find that version in the indices; so with event
    /// handlers, only one version is indexed ahead, and without them, the newest one. An item of a
    /// repeated listing replaces that of the first listing: otherwise the bytes of both would
    /// count, and a large listing could never be read completely.
    fn indexes_ahead(&self) -> bool {
        let is_relisted =
            self.ahead.iter().all(Queued::is_listed) && self.base.mailbox.begins_listed();
        let has_event_handlers = !self.base.context.policy.handlers.watching.is_empty();
        self.ahead.is_empty() || !has_event_handlers || is_relisted
    }

    /// Indexes the queued entries, and keeps the newest version for later unless the object is only
    /// indexed.
    async fn index_ahead(&mut self, permit: &mut ObjectPermit) {
        while self.indexes_ahead()
            && let Some(entry) = self.base.mailbox.pop()
        {
            match &entry {
                Queued::Vanished => self.base.unindex(),
                Queued::Nudge => continue,
                Queued::Event { event, raw, .. } => {
                    let managed = self.base.context.shared.context.managed_fields;
                    // An unreadable version is kept and reported later.
                    if let Ok((body, _)) = Body::parse_with(raw, managed)
                        && !self.index(*event, body, permit).await
                    {
                        self.ahead.clear();
                        continue;
                    }
                }
            }
            if self.ahead.back().is_some_and(Queued::is_alive) {
                self.ahead.pop_back();
            }
            self.ahead.push_back(entry);
        }
    }

    /// Indexes a version. Returns `true` if it must be handled after the wait. Most objects of
    /// indexed resources are only indexed.
    async fn index(&mut self, event: EventType, body: Body, permit: &mut ObjectPermit) -> bool {
        let context = Arc::clone(&self.base.context);
        let poster = context.shared.poster.clone();
        let logger = ObjectLogger::new(Arc::new(body.reference()), Some(poster));
        let is_blocked = finalizer::is_blocked(&body, context.finalizer());
        if context.policy.handlers.is_reconciled {
            context.notify_owners(event, &body);
        }
        let (version, replica) = (Version { event, body }, HandlingReplica::This);
        self.base.index(&version, replica, &logger, permit).await;
        context.is_handled() || event == EventType::Deleted || is_blocked
    }
}

impl Active {
    /// Handles the object while this replica is responsible for it.
    async fn run(mut self: Box<Self>) -> Next {
        let context = Arc::clone(&self.base.context);
        loop {
            let is_ending = self.pass.is_ending();
            if is_ending && Box::pin(self.is_to_be_left()).await {
                return self.leave();
            }
            if !is_ending && self.takes_events() {
                self.base.guard.becomes(Counted::Working);
                let _worker_permit = context.worker_permit().await;
                let permit = Box::pin(self.acquire_permit()).await;
                let span = spans::cycle(context.resource());
                Box::pin(self.on_events(permit).instrument(span)).await;
                if *self.object.machine.state() == State::Gone {
                    return Next::Gone;
                }
                continue;
            }
            if context.shared.pause.is_paused() {
                let _worker_permit = context.worker_permit().await;
                Box::pin(self.on_pause()).await;
            }
            let machine = &self.object.machine;
            let Some(deadline) = machine.deadline() else {
                if self.base.mailbox.close() {
                    return self.rest();
                }
                continue;
            };
            let (has_unsent, is_woken) = (machine.has_unsent(), machine.is_woken_by_exits());
            self.base.guard.becomes(counted(machine.state()));
            tokio::select! {
                biased;
                () = context.stop.cancelled() => return self.rest(),
                () = self.pass.ended(), if !is_ending => {}
                () = self.base.mailbox.arrival() => {}
                () = self.base.state.exit(), if is_woken => {
                    self.object.step(Input::RunnerExited, &context.rules, context.now());
                }
                () = context.shared.pause.paused(), if !has_unsent => {}
                () = sleep_until(context.instant(deadline)) => {
                    self.base.guard.becomes(Counted::Working);
                    let _worker_permit = context.worker_permit().await;
                    let permit = Box::pin(self.acquire_permit()).await;
                    let span = spans::cycle(context.resource());
                    Box::pin(self.on_deadline(permit).instrument(span)).await;
                }
            }
        }
    }

    /// Returns `true` if there are events and the patch of event handlers is below its limit.
    fn takes_events(&self) -> bool {
        let (object, mailbox) = (&self.object, &self.base.mailbox);
        let is_full = object.patch.fns.len() >= MAX_BACKLOG
            && object.machine.is_held_back(self.base.context.now());
        let has_any = !mailbox.is_empty() || mailbox.is_nudged() || !self.ahead.is_empty();
        has_any && !is_full
    }

    async fn acquire_permit(&self) -> ObjectPermit {
        self.base.acquire_permit(&self.ahead).await
    }

    async fn on_deadline(&mut self, mut permit: ObjectPermit) {
        // Events that arrived while waiting for the permit take precedence.
        if self.base.mailbox.is_empty() || self.pass.is_ending() {
            self.feed(Input::Deadline, &mut permit).await;
        }
    }

    async fn on_pause(&mut self) {
        let mut permit = self.acquire_permit().await;
        let input = self.object.pause();
        Box::pin(self.feed(input, &mut permit)).await;
    }

    /// Returns `true` if the object must be left to another replica now. Results are written first,
    /// unless the Lease is lost.
    async fn is_to_be_left(&mut self) -> bool {
        if self.pass.is_lost() {
            return true;
        }
        let context = Arc::clone(&self.base.context);
        let _worker_permit = context.worker_permit().await;
        self.on_pause().await;
        let is_left = self.object.can_be_left();
        if is_left && self.object.memory.release.is_some() {
            // The other replica must not call the handlers of the deletion again.
            let mut permit = self.acquire_permit().await;
            self.record_release(&mut permit).await;
        }
        is_left
    }

    /// Leaves the object to another replica.
    fn leave(self) -> Next {
        let mut base = self.base;
        base.context.discard_sharded(&base.key);
        base.state.hand_over();
        Next::Enter(base.enter(None))
    }

    /// Returns the state that outlives the driver.
    fn rest(self) -> Next {
        let mut base = self.base;
        let (memory, newest) = self.object.rest();
        base.state.memory = memory;
        base.state.last = newest
            .filter(|newest| base.context.keeps(&newest.body))
            .map(Box::new);
        Next::Quiet(Box::new(base.state))
    }
}

/// Returns the state to count. Waiting for an expected event counts as work; waiting for a time
/// does not.
fn counted(state: &State) -> Counted {
    match state {
        State::Sleeping { .. } => Counted::Sleeping,
        State::BackingOff(wait) if *wait.reason() != BackOffReason::Conflict => Counted::BackingOff,
        _ => Counted::Working,
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
        let sizes = (size_of_result(Driver::run), size_of::<Active>());
        assert!(sizes.0 <= 1024, "{sizes:?}");
        assert!(sizes.1 <= 1024, "{sizes:?}");
    }
}
