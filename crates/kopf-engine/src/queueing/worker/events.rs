//! Taking events out of the queue.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::lenient::DEPTH_LIMIT;
use kopf_core::patch::Patch;
use kopf_core::wording;
use tokio::time::Instant;

use super::super::mailbox::Queued;
use super::super::memory::Memory;
use super::waiting::{Gate, Why};
use super::{Holding, Presence, Worker};
use crate::execution::describe_panic;
use crate::processing::{self, Error};

/// How often the handling gives way to newer events: not forever.
const POSTPONED: usize = 16;

impl Worker {
    pub(super) async fn on_events(&mut self, mut holding: Holding) -> Presence {
        let mut drained = self.mailbox.drain();
        drained.entries.retain(|entry| !self.memory.covers(entry));
        if drained.entries.is_empty() && self.ahead.is_empty() {
            return Presence::There;
        }
        let overdue = |gate: &Gate| gate.deadline <= Instant::now();
        if !drained.expecting || self.gate.as_ref().is_some_and(overdue) {
            drained.expecting = false;
            self.mailbox.expect_nothing();
            self.gate = None;
        }
        let was_deleting = self.newest_is_deleting();
        let every = self.kind.takes_every_version();
        let ahead = std::mem::take(&mut self.ahead);
        let indexed = ahead.len();
        let last = (indexed + drained.entries.len()).saturating_sub(1);
        for (position, entry) in ahead.into_iter().chain(drained.entries).enumerate() {
            let is_last = position == last;
            match entry {
                Queued::Vanished if is_last => return Presence::Gone,
                // What comes after the end is another life, of which nothing is known.
                Queued::Vanished => self.begin_anew(position >= indexed),
                // Superseded versions matter to event handlers and indices only.
                Queued::Event { .. } if !every && !is_last => {}
                Queued::Event { event, raw, .. } => {
                    if self.newest_is_deleted() {
                        self.begin_anew(position >= indexed);
                    }
                    let Some(body) = self.parse(event, &raw, is_last) else {
                        if event == EventType::Deleted {
                            return Presence::Gone;
                        }
                        continue;
                    };
                    if position >= indexed {
                        self.index(event, &body, &mut holding).await;
                    }
                    self.take(event, body, &mut holding).await;
                }
            }
        }
        if self.newest_is_deleted() {
            // Nothing that is left to be written can be written any more.
            (self.unsent, self.wake, self.gate) = (None, None, None);
            self.from_events = Patch::default();
            self.cycle(holding, true).await;
            return Presence::Gone;
        }
        self.give_up_what_is_hopeless();
        if self.is_held_back() && self.newest_is_deleting() && !was_deleting {
            // Whatever has failed, it may not matter any more; and somebody waits for the deletion.
            self.wake = None;
        }
        if self.is_held_back() || self.newest.is_none() {
            return Presence::There;
        }
        // Other handlers may have taken long, and change handlers want the newest version only.
        if every && !self.mailbox.is_empty() && self.postponed < POSTPONED {
            self.postponed += 1;
            return Presence::There;
        }
        self.postponed = 0;
        self.log_interruption();
        self.cycle(holding, !drained.expecting).await;
        Presence::There
    }

    /// Reads a version. If it cannot be read, that is reported, and the newest one is waited for.
    pub(super) fn parse(&mut self, event: EventType, raw: &Bytes, is_last: bool) -> Option<Body> {
        match Body::parse_counting(raw) {
            Ok((body, cut)) => {
                if cut > 0 {
                    self.logger(&body).warning(format_args!(
                        "Values of the object are nested deeper than {DEPTH_LIMIT} levels, and \
                         are null for the operator: {cut}."
                    ));
                }
                Some(body)
            }
            Err(error) => {
                let error = Error::from(error);
                if is_last && event != EventType::Deleted {
                    self.fail(&error);
                } else {
                    self.report(&error, None);
                }
                None
            }
        }
    }

    /// Takes one version, and shows it to the event handlers.
    async fn take(&mut self, event: EventType, body: Body, holding: &mut Holding) {
        if !self.kind.handlers.watching.is_empty() {
            let kind = Arc::clone(&self.kind);
            let logger = self.logger(&body).clone();
            let memo = self.memory.memo(&kind.shared.context.memo);
            let watching = processing::watch(&kind, event, &body, memo, &logger, holding);
            match AssertUnwindSafe(watching).catch_unwind().await {
                Ok(patch) => self.from_events.merge_from(patch),
                // The rest of the cycle may still work.
                Err(panic) => self.report(&Error::Panic(describe_panic(&*panic)), None),
            }
            holding.take_again().await;
        }
        if let Some(background) = &self.memory.background {
            background.refresh(&body);
        }
        self.newest = Some((event, body));
    }

    fn log_interruption(&self) {
        let Some((wake, logger)) = self.wake.as_ref().zip(self.logger.as_ref()) else {
            return;
        };
        let left = wake.at.duration_since(Instant::now());
        if wake.why == Why::Due && !left.is_zero() {
            logger.local().debug(wording::sleeping_interrupted(left));
        }
    }

    fn newest_is_deleting(&self) -> bool {
        self.newest
            .as_ref()
            .is_some_and(|(_, body)| body.is_deleting())
    }

    fn newest_is_deleted(&self) -> bool {
        matches!(self.newest, Some((EventType::Deleted, _)))
    }

    /// Another object with the same identity. `is_to_index`: the indices do not know of it yet.
    fn begin_anew(&mut self, is_to_index: bool) {
        let mut indexing = self.memory.indexing.take();
        if is_to_index {
            self.kind.indices.discard(&self.object);
            indexing = None;
        }
        self.memory = Memory::default();
        self.memory.indexing = indexing;
        self.logger = None;
        self.newest = None;
        self.from_events = Patch::default();
        (self.unsent, self.wake, self.gate) = (None, None, None);
        self.mailbox.expect_nothing();
    }
}
