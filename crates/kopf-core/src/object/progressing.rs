//! Detection of cycles without progress.
//!
//! Whatever the server or a webhook does to the writes of the operator, repeated cycles without
//! progress are spaced by growing delays.

use std::collections::VecDeque;

use super::moment::Moment;
use super::plan::FinalizerChange;
use super::rules::Rules;

/// Consecutive cycles of the same kind without progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Repeats {
    cycles: u32,
    last: Option<Moment>,
}

impl Repeats {
    /// Returns the moment from which the next cycle of this kind is allowed; `None` if it is now.
    pub(super) fn blocked_until(&self, rules: &impl Rules, now: Moment) -> Option<Moment> {
        let last = self.last?;
        let until = last.after(rules.backoff(self.cycles.saturating_sub(1)));
        (now < until).then_some(until)
    }

    /// Like [`blocked_until`](Self::blocked_until), but the first cycle of this kind does not delay
    /// the next one.
    pub(super) fn blocked_after_first(&self, rules: &impl Rules, now: Moment) -> Option<Moment> {
        (self.cycles > 1).then(|| self.blocked_until(rules, now))?
    }

    /// Counts a cycle of this kind.
    pub(super) fn count(&mut self, now: Moment) {
        self.cycles = self.cycles.saturating_add(1);
        self.last = Some(now);
    }

    /// Notes progress: the next cycle of this kind is allowed at once.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

/// Consecutive changes of the finalizer in the same direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct FinalizerRepeats {
    change: Option<FinalizerChange>,
    repeats: Repeats,
}

impl FinalizerRepeats {
    /// Returns the moment from which this change is allowed again; `None` if it is now.
    pub(super) fn blocked_until(
        &self,
        change: FinalizerChange,
        rules: &impl Rules,
        now: Moment,
    ) -> Option<Moment> {
        self.is_last(change)
            .then(|| self.repeats.blocked_until(rules, now))?
    }

    /// Returns `true` if this was the last change.
    pub(super) fn is_last(&self, change: FinalizerChange) -> bool {
        self.change == Some(change)
    }

    /// Counts a change.
    pub(super) fn count(&mut self, change: FinalizerChange, now: Moment) {
        if self.change.replace(change) != Some(change) {
            self.repeats.reset();
        }
        self.repeats.count(now);
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
    repeats: u32,
    last: Option<Moment>,
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
        let last = self.last.filter(|_| self.knows(fingerprint))?;
        let until = last.after(rules.backoff(self.repeats));
        (now < until).then_some(until)
    }

    /// Notes that handlers were called for a cause with this fingerprint.
    pub(super) fn note(&mut self, fingerprint: Fingerprint, now: Moment) {
        self.last = Some(now);
        if self.knows(fingerprint) {
            self.repeats = self.repeats.saturating_add(1);
            return;
        }
        if self.target != fingerprint.target {
            self.target = fingerprint.target;
            self.known.clear();
        }
        self.repeats = 0;
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
