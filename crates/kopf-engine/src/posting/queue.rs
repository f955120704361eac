//! The bounded queue of events, with repeats folded into one.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use jiff::Timestamp;
use kopf_core::repeats::Repeats;
use kopf_core::settings::Backoffs;

use super::event::{Event, Occurrences};

/// Number of events whose repeats are recognised, about half a megabyte.
const REMEMBERED: usize = 10_000;

/// Events in the order of their first occurrence. Repeats of posted events wait until they are due.
pub(super) struct Queue {
    order: VecDeque<Waiting>,
    /// Events that are not due yet, by the times at which they are, in the order of their arrival.
    postponed: BTreeMap<(Timestamp, u64), Waiting>,
    /// The number of the next postponed event.
    next: u64,
    /// All queued events.
    occurrences: HashMap<Arc<Event>, Occurrences>,
    repeats: Repeats,
    digests: RandomState,
    pub(super) dropped: u64,
    /// Number of events dropped since the queue was last half empty.
    burst: u64,
    /// `true` while an event is being sent.
    sending: bool,
}

struct Waiting {
    event: Arc<Event>,
    backoffs: Backoffs,
}

/// The next event to send.
#[derive(Debug)]
pub(super) struct Next {
    pub(super) event: Arc<Event>,
    pub(super) occurrences: Occurrences,
    /// Delays between attempts.
    pub(super) backoffs: Backoffs,
}

/// Result of queueing an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    Queued,
    Folded,
    Dropped,
    FirstDropped,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            postponed: BTreeMap::new(),
            next: 0,
            occurrences: HashMap::new(),
            repeats: Repeats::new(REMEMBERED),
            digests: RandomState::new(),
            dropped: 0,
            burst: 0,
            sending: false,
        }
    }
}

impl Queue {
    /// Queues an event, folds it into an equal one, or drops it if `limit` events are queued. The
    /// same limit applies to postponed events.
    pub(super) fn push(
        &mut self,
        event: Event,
        backoffs: Backoffs,
        now: Timestamp,
        limit: usize,
    ) -> Accepted {
        if let Some(occurrences) = self.occurrences.get_mut(&event) {
            occurrences.count = occurrences.count.saturating_add(1);
            occurrences.last = now;
            return Accepted::Folded;
        }
        let due = self.repeats.due(self.digests.hash_one(&event), now);
        if due.is_some() && self.postponed.len() >= limit {
            // The next repeat after that time is posted, with a lower count.
            return Accepted::Folded;
        }
        if due.is_none() && self.order.len() >= limit {
            self.dropped += 1;
            self.burst += 1;
            return if self.burst == 1 {
                Accepted::FirstDropped
            } else {
                Accepted::Dropped
            };
        }
        let event = Arc::new(event);
        let occurrences = Occurrences {
            count: 1,
            first: now,
            last: now,
            is_repeat: false,
        };
        self.occurrences.insert(Arc::clone(&event), occurrences);
        let waiting = Waiting { event, backoffs };
        match due {
            None => self.order.push_back(waiting),
            Some(due) => {
                self.postponed.insert((due, self.next), waiting);
                self.next = self.next.wrapping_add(1);
            }
        }
        Accepted::Queued
    }

    /// Takes the next event that is due.
    pub(super) fn pop(&mut self, now: Timestamp) -> Option<Next> {
        self.sending = false;
        while let Some(first) = self.postponed.first_entry()
            && first.key().0 <= now
        {
            self.order.push_back(first.remove());
        }
        let Waiting { event, backoffs } = self.order.pop_front()?;
        self.sending = true;
        let is_repeat = self.repeats.note(self.digests.hash_one(&event), now);
        let occurrences = Occurrences {
            is_repeat,
            ..self.occurrences.remove(&event)?
        };
        Some(Next {
            event,
            occurrences,
            backoffs,
        })
    }

    /// Returns the time at which the next postponed event is due.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.postponed.keys().next().map(|(due, _)| *due)
    }

    /// Returns the number of different events that are queued.
    pub(super) fn len(&self) -> usize {
        self.occurrences.len()
    }

    /// Returns `true` if no event is being sent or is due.
    pub(super) fn is_idle(&self) -> bool {
        self.order.is_empty() && !self.sending
    }

    /// Returns the number of events dropped in the burst that has just ended.
    pub(super) fn end_of_burst(&mut self, limit: usize) -> Option<u64> {
        // The burst ends at half of the limit; otherwise the next drop would start another burst at
        // once.
        let is_over = self.burst > 0 && self.order.len() <= limit / 2;
        is_over.then(|| std::mem::take(&mut self.burst))
    }
}
