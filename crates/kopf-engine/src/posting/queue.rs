//! The bounded queue of events, with repeats folded into one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use jiff::Timestamp;
use kopf_core::settings::Backoffs;

use super::event::{Event, Occurrences};

/// Events in the order of their first occurrence.
#[derive(Default)]
pub(super) struct Queue {
    order: VecDeque<(Arc<Event>, Backoffs)>,
    occurrences: HashMap<Arc<Event>, Occurrences>,
    pub(super) dropped: u64,
    /// Number of events dropped since the queue was last half empty.
    burst: u64,
    /// `true` while an event is being sent.
    sending: bool,
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

impl Queue {
    /// Queues an event, folds it into an equal one, or drops it if `limit` events are queued.
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
        self.order.push_back((event, backoffs));
        Accepted::Queued
    }

    pub(super) fn pop(&mut self) -> Option<Next> {
        self.sending = false;
        let (event, backoffs) = self.order.pop_front()?;
        self.sending = true;
        let occurrences = self.occurrences.remove(&event)?;
        Some(Next {
            event,
            occurrences,
            backoffs,
        })
    }

    /// Returns the number of different events that are queued.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns `true` if no event is queued or being sent.
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
