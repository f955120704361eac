//! Events that wait for being sent: so many and no more, repeats folded into one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;

use super::event::{Event, Occurrences};

/// Events in the order of their first occurrence.
#[derive(Default)]
pub(super) struct Queue {
    order: VecDeque<Arc<Event>>,
    occurrences: HashMap<Arc<Event>, Occurrences>,
    pub(super) dropped: u64,
    /// Of those, how many since there was space the last time.
    burst: u64,
    /// Whether one has left the queue and is on its way.
    sending: bool,
}

/// What has become of an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Accepted {
    Queued,
    Folded,
    Dropped,
    FirstDropped,
}

impl Queue {
    /// Takes an event, unless so many others wait.
    pub(super) fn push(&mut self, event: Event, now: Timestamp, limit: usize) -> Accepted {
        if let Some(occurrences) = self.occurrences.get_mut(&event) {
            occurrences.count = occurrences.count.saturating_add(1);
            occurrences.last = now;
            return Accepted::Folded;
        }
        if self.order.len() >= limit {
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
        };
        self.occurrences.insert(Arc::clone(&event), occurrences);
        self.order.push_back(event);
        Accepted::Queued
    }

    pub(super) fn pop(&mut self) -> Option<(Arc<Event>, Occurrences)> {
        self.sending = false;
        let event = self.order.pop_front()?;
        self.sending = true;
        let occurrences = self.occurrences.remove(&event)?;
        Some((event, occurrences))
    }

    /// Whether there is nothing to send and nothing on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.order.is_empty() && !self.sending
    }

    /// How many were dropped in the burst that is over, if it is.
    pub(super) fn end_of_burst(&mut self, limit: usize) -> Option<u64> {
        // Not at the first free place: the next drop would begin another burst at once.
        let is_over = self.burst > 0 && self.order.len() <= limit / 2;
        is_over.then(|| std::mem::take(&mut self.burst))
    }
}
