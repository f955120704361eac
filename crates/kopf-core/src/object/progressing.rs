//! Detection of cycles without progress.
//!
//! Whatever the server, a webhook or another client does to the writes of the operator, repeated
//! cycles without progress are spaced by growing delays.

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

/// The causes that were handled since the last visible progress.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Stall {
    fingerprints: VecDeque<u64>,
    repeats: u32,
    last: Option<Moment>,
}

impl Stall {
    /// Notes that a cause with this fingerprint is about to be handled. Returns the moment until
    /// which it must wait, because the same one was handled before.
    pub(super) fn begin(
        &mut self,
        fingerprint: u64,
        rules: &impl Rules,
        now: Moment,
    ) -> Option<Moment> {
        if !self.fingerprints.contains(&fingerprint) {
            self.fingerprints.truncate(REMEMBERED - 1);
            self.fingerprints.push_front(fingerprint);
            self.last = Some(now);
            return None;
        }
        let last = self.last?;
        let until = last.after(rules.backoff(self.repeats));
        if now < until {
            return Some(until);
        }
        self.repeats = self.repeats.saturating_add(1);
        self.last = Some(now);
        None
    }

    /// Notes progress: handling the same cause again is a new one.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}
