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
        let is_repeated = self.change == Some(change);
        is_repeated.then(|| self.repeats.blocked_until(rules, now))?
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

/// Number of remembered fingerprints. More than the cycles of one cause that are likely to repeat.
const REMEMBERED: usize = 16;

/// The causes for which handlers were called since the last one was over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Stall {
    fingerprints: VecDeque<u64>,
    repeats: u32,
    last: Option<Moment>,
}

impl Stall {
    /// Returns the moment until which a cause with this fingerprint must wait, because handlers were
    /// called for the same one before.
    pub(super) fn blocked_until(
        &self,
        fingerprint: u64,
        rules: &impl Rules,
        now: Moment,
    ) -> Option<Moment> {
        let last = self
            .last
            .filter(|_| self.fingerprints.contains(&fingerprint))?;
        let until = last.after(rules.backoff(self.repeats));
        (now < until).then_some(until)
    }

    /// Notes that handlers were called for a cause with this fingerprint.
    pub(super) fn note(&mut self, fingerprint: u64, now: Moment) {
        self.last = Some(now);
        if self.fingerprints.contains(&fingerprint) {
            self.repeats = self.repeats.saturating_add(1);
        } else {
            self.repeats = 0;
            self.fingerprints.truncate(REMEMBERED - 1);
            self.fingerprints.push_front(fingerprint);
        }
    }

    /// Notes that the cause is over: handling the same one again is a new one.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}
