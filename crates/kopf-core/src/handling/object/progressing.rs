//! Detection of cycles without progress.
//!
//! Whatever the server or a webhook does to the writes of the operator, repeated cycles without
//! progress are spaced by growing delays.

use std::collections::VecDeque;
use std::time::Duration;

use super::moment::Moment;
use super::plan::FinalizerChange;
use super::rules::Rules;

/// Failures, conflicts, or cycles without progress in a row. Each of them delays the next attempt
/// longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Backoff {
    count: u32,
    last: Option<Moment>,
}

impl Backoff {
    /// Returns `true` before the first one.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns `true` after the first one.
    pub(super) fn is_first(&self) -> bool {
        self.count == 1
    }

    /// Counts one.
    pub(super) fn count(&mut self, now: Moment) {
        self.count = self.count.saturating_add(1);
        self.last = Some(now);
    }

    /// Returns the delay after the last one.
    pub(super) fn delay(&self, rules: &impl Rules) -> Duration {
        rules.backoff(self.count.saturating_sub(1))
    }

    /// Returns the delay after the next one, which is a failure of the framework; `None` if the
    /// object waits for its next event.
    pub(super) fn next_failure_delay(&self, rules: &impl Rules) -> Option<Duration> {
        rules.failure_delay(self.count)
    }

    /// Returns the moment until which the next attempt must wait; `None` if it is allowed now.
    pub(super) fn blocked_until(&self, rules: &impl Rules, now: Moment) -> Option<Moment> {
        let until = self.last?.after(self.delay(rules));
        (now < until).then_some(until)
    }

    /// Notes progress: the next attempt is allowed at once. Returns `true` if there were any.
    pub(super) fn reset(&mut self) -> bool {
        !std::mem::take(self).is_empty()
    }
}

/// Consecutive changes of the finalizer in the same direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct FinalizerBackoff {
    change: Option<FinalizerChange>,
    backoff: Backoff,
}

impl FinalizerBackoff {
    /// Returns the moment from which this change is allowed again; `None` if it is now.
    pub(super) fn blocked_until(
        &self,
        change: FinalizerChange,
        rules: &impl Rules,
        now: Moment,
    ) -> Option<Moment> {
        self.is_last(change)
            .then(|| self.backoff.blocked_until(rules, now))?
    }

    /// Returns `true` if this was the last change.
    pub(super) fn is_last(&self, change: FinalizerChange) -> bool {
        self.change == Some(change)
    }

    /// Counts a change.
    pub(super) fn count(&mut self, change: FinalizerChange, now: Moment) {
        if self.change.replace(change) != Some(change) {
            self.backoff.reset();
        }
        self.backoff.count(now);
    }

    /// Notes that the finalizer is as it should be.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

/// A digest of a cause and of the progress of its handlers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// A digest of the reason and of the current essence: the state that is to be reached.
    pub target: u64,
    /// A digest of the target, of the diff-base and of the records. Two cycles with equal digests
    /// have made no progress in between, unless there was another target in the meantime.
    pub progress: u64,
}

/// Number of remembered fingerprints. More than the cycles of one cause that are likely to repeat.
const REMEMBERED: usize = 16;

/// The states of progress towards the same target in which handlers were called.
///
/// Another target begins a new series: other clients have changed the object. If they change it
/// back and forth faster than it is handled, the same causes follow each other again and again, and
/// each of them is handled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Stall {
    target: u64,
    known: VecDeque<u64>,
    backoff: Backoff,
}

impl Stall {
    /// Returns the moment until which a cause with this fingerprint must wait, because handlers were
    /// called for the same one before.
    pub(super) fn blocked_until(
        &self,
        fingerprint: Fingerprint,
        rules: &impl Rules,
        now: Moment,
    ) -> Option<Moment> {
        self.knows(fingerprint)
            .then(|| self.backoff.blocked_until(rules, now))?
    }

    /// Notes that handlers were called for a cause with this fingerprint.
    pub(super) fn note(&mut self, fingerprint: Fingerprint, now: Moment) {
        if self.knows(fingerprint) {
            return self.backoff.count(now);
        }
        if self.target != fingerprint.target {
            self.target = fingerprint.target;
            self.known.clear();
        }
        self.backoff.reset();
        self.backoff.count(now);
        self.known.truncate(REMEMBERED - 1);
        self.known.push_front(fingerprint.progress);
    }

    fn knows(&self, fingerprint: Fingerprint) -> bool {
        self.target == fingerprint.target && self.known.contains(&fingerprint.progress)
    }

    /// Notes that the cause is over: handling the same one again is a new one.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}
