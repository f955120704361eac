//! Indexing, and waiting for all indices to be filled: without a turn and without a place among the
//! workers, so that it does not matter how few of them there are.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt as _;
use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::finalizer;

use super::super::mailbox::Queued;
use super::{Holding, Worker, permit};
use crate::execution::describe_panic;
use crate::processing::{self, Error};

/// How many versions of an object are kept for its event handlers. The next ones stay in the queue,
/// and are not indexed either, until there are handlers for them: the stream is read slowly then.
const AHEAD: usize = 100;

/// How the waiting has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    /// All indices are filled.
    Ready,
    /// There is nothing to wait for any more.
    Over,
}

impl Worker {
    /// Waits for the turn of the object.
    pub(super) async fn hold(&self) -> Holding {
        let listed = !self.ahead.is_empty() && self.ahead.iter().all(Queued::is_listed);
        Holding::of_events(&self.kind.shared.turns, &self.mailbox, listed).await
    }

    /// Waits until all indices are filled. Meanwhile, the object is indexed, but nothing else is
    /// done to it.
    pub(super) async fn await_indices(&mut self) -> Waited {
        let kind = Arc::clone(&self.kind);
        let is_indexed = !kind.indices.is_empty();
        while !kind.is_ready() {
            if is_indexed {
                if !self.mailbox.is_empty() && self.ahead.len() < AHEAD {
                    let _permit = permit(&kind).await;
                    let holding = self.hold().await;
                    self.index_ahead(holding).await;
                }
                self.blocker = None;
                if self.ahead.is_empty() {
                    if self.mailbox.close() {
                        return Waited::Over;
                    }
                    continue;
                }
            }
            tokio::select! {
                biased;
                () = kind.stop.cancelled() => return Waited::Over,
                () = kind.ready() => {}
                () = self.mailbox.arrival(), if is_indexed && self.ahead.len() < AHEAD => {}
            }
        }
        Waited::Ready
    }

    /// Indexes what has come, and keeps it for later if there is anything else to be done.
    async fn index_ahead(&mut self, mut holding: Holding) {
        for entry in self.mailbox.drain().entries {
            match &entry {
                Queued::Vanished => {
                    self.kind.indices.discard(&self.object);
                    self.memory.indexing = None;
                }
                Queued::Event { event, raw, .. } => {
                    // What cannot be read is kept, and reported when its time comes.
                    if let Ok(body) = Body::parse(raw) {
                        self.index(*event, &body, &mut holding).await;
                        if !self.is_left_to_handle(*event, &body) {
                            self.ahead.clear();
                            continue;
                        }
                    }
                }
            }
            // Superseded versions matter to event handlers only.
            let is_watched = !self.kind.handlers.watching.is_empty();
            if !is_watched && self.ahead.back().is_some_and(Queued::is_alive) {
                self.ahead.pop_back();
            }
            self.ahead.push_back(entry);
        }
    }

    /// Most objects of most indexed kinds are there to be indexed only.
    fn is_left_to_handle(&self, event: EventType, body: &Body) -> bool {
        let finalizer = &self.kind.shared.context.settings.persistence.finalizer;
        self.kind.is_handled()
            || event == EventType::Deleted
            || finalizer::is_blocked(body, finalizer)
    }

    /// Brings the indices up to date with this version.
    pub(super) async fn index(&mut self, event: EventType, body: &Body, holding: &mut Holding) {
        if self.kind.indices.is_empty() {
            return;
        }
        let kind = Arc::clone(&self.kind);
        let logger = self.logger(body).clone();
        let version = (event, body);
        let memory = &mut self.memory;
        let indexing = processing::index(&kind, &self.object, memory, version, &logger, holding);
        if let Err(panic) = AssertUnwindSafe(indexing).catch_unwind().await {
            // The rest of the cycle may still work, and the next version may be a better one.
            self.report(&Error::Panic(describe_panic(&*panic)), None);
        }
        holding.take_again().await;
    }
}
