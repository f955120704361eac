//! The worker of one object: takes its events in order, one cycle at a time, sleeps when the object
//! has to wait, and ends when there is nothing left to do.
//!
//! Nothing is done to an object except by its worker, so nothing is done to it twice at once.

mod ahead;
mod cycling;
mod events;
mod holding;
mod waiting;
mod writing;

use std::collections::VecDeque;
use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::patch::Patch;
use tokio::sync::SemaphorePermit;
use tokio::time::sleep_until;

use ahead::Waited;
pub(crate) use holding::Holding;
use waiting::{Gate, Wake};
use writing::Unsent;

use super::mailbox::{Mailbox, Queued};
use super::memory::Memory;
use super::stream::Kind;
use crate::identity::Identity;
use crate::indexing::{Blocker, ObjectKey};
use crate::inspect::{Counted, Guard};
use crate::logger::ObjectLogger;

/// What event handlers may leave to be written while nothing can be written. Beyond that, events
/// stay in the queue.
const BACKLOG: usize = 100;

/// What a worker leaves behind.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) identity: Identity,
    /// `None`: the object is gone.
    pub(crate) memory: Option<Memory>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Worker {
    kind: Arc<Kind>,
    mailbox: Arc<Mailbox>,
    /// Whose entries are in the indices.
    object: ObjectKey,
    memory: Memory,
    guard: Guard,
    /// Until the object is indexed for the first time.
    blocker: Option<Blocker>,
    /// What is indexed, and waits for all indices to be filled.
    ahead: VecDeque<Queued>,
    logger: Option<ObjectLogger>,
    /// The newest version of the object that is known.
    newest: Option<(EventType, Body)>,
    /// What event handlers have left to be written.
    from_events: Patch,
    /// What was decided and is not written yet: nothing else happens before it is.
    unsent: Option<Unsent>,
    /// How many times in a row something has failed that is not a handler's fault.
    failures: usize,
    /// How many times in a row the server has refused transformations.
    refusals: usize,
    /// How many times in a row the handling has given way to newer events.
    postponed: usize,
    /// When to go on without an event.
    wake: Option<Wake>,
    /// The own write that has not come back yet.
    gate: Option<Gate>,
}

/// Whether the object is still there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    There,
    Gone,
}

impl Worker {
    pub(crate) fn new(
        kind: Arc<Kind>,
        mailbox: Arc<Mailbox>,
        object: ObjectKey,
        mut memory: Memory,
    ) -> Self {
        if kind.is_reviewed {
            let shared = &kind.shared;
            memory.take_over(|| shared.memos.hand_over(&object, &shared.context.memo));
        }
        let guard = kind.shared.inspect.count(Counted::Working);
        let blocks = !kind.indices.is_empty() && !kind.is_ready();
        let blocker = blocks.then(|| kind.shared.barrier.block());
        Self {
            kind,
            mailbox,
            object,
            memory,
            guard,
            blocker,
            ahead: VecDeque::new(),
            logger: None,
            newest: None,
            from_events: Patch::default(),
            unsent: None,
            failures: 0,
            refusals: 0,
            postponed: 0,
            wake: None,
            gate: None,
        }
    }

    /// Works until nothing is left to do, or until the object is gone (then there is nothing to
    /// be remembered), or until the stream is stopped.
    ///
    /// There can be as many workers waiting as there are objects, so what is needed only while
    /// working is not a part of this future.
    pub(crate) async fn run(mut self: Box<Self>) -> Option<Memory> {
        let kind = Arc::clone(&self.kind);
        // Boxed, because it is needed once in a lifetime, and every worker would be as large.
        if !kind.is_ready() && Box::pin(self.await_indices()).await == Waited::Over {
            return Some(self.memory.at_rest());
        }
        loop {
            if self.takes_events() {
                self.guard.becomes(Counted::Working);
                let _permit = permit(&kind).await;
                let holding = self.hold().await;
                if Box::pin(self.on_events(holding)).await == Presence::Gone {
                    return None;
                }
                continue;
            }
            let moment = self.next_moment().filter(|_| self.may_go_on());
            let Some(at) = moment else {
                if self.mailbox.close() {
                    return Some(self.memory.at_rest());
                }
                continue;
            };
            let counted = self.counted();
            self.guard.becomes(counted);
            tokio::select! {
                biased;
                () = kind.stop.cancelled() => return Some(self.memory),
                () = self.mailbox.arrival() => {}
                () = self.memory.exit(), if self.is_asleep() => self.wake_up(),
                () = kind.shared.pause.paused(), if self.unsent.is_none() => {}
                () = sleep_until(at) => {
                    self.guard.becomes(Counted::Working);
                    let _permit = permit(&kind).await;
                    Box::pin(self.on_time()).await;
                }
            }
        }
    }

    /// While nothing can be written, what event handlers want to be written must not grow forever.
    fn takes_events(&self) -> bool {
        let is_full = self.is_held_back() && self.from_events.fns.len() >= BACKLOG;
        let has_any = !self.mailbox.is_empty() || !self.ahead.is_empty();
        has_any && !is_full
    }

    fn logger(&mut self, body: &Body) -> &ObjectLogger {
        let poster = &self.kind.shared.poster;
        self.logger.get_or_insert_with(|| {
            ObjectLogger::new(Arc::new(body.reference()), Some(poster.clone()))
        })
    }
}

/// If the limit is closed, there is none.
async fn permit(kind: &Kind) -> Option<SemaphorePermit<'_>> {
    match &kind.limit {
        Some(limit) => limit.acquire().await.ok(),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_result<T, F: Future>(_: impl Fn(T) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn waiting_workers_are_small() {
        let sizes = (size_of_result(Worker::run), size_of::<Worker>());
        assert!(sizes.0 <= 1024, "{sizes:?}");
        assert!(sizes.1 <= 1024, "{sizes:?}");
    }
}
