//! Outcomes of index handlers: the effect on the entries of their object, and the time of the next
//! attempt.
//!
//! Unlike the progress of change handlers, they are kept only in memory, like the indices. Only
//! failures are stored.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::handler::HandlerId;
use crate::outcome::Outcome;

/// The effect on the entries of one object in one index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// They are replaced by the returned ones.
    Replace,
    /// They are kept.
    Keep,
    /// They are removed.
    Discard,
}

impl Effect {
    /// Returns the effect of an attempt. `returned` is `true` if the function returned entries,
    /// even an empty set.
    ///
    /// Handlers that were not called have no outcome: their entries are discarded.
    pub fn of(outcome: &Outcome, returned: bool) -> Self {
        match (outcome.is_final && outcome.error.is_none(), returned) {
            (false, _) => Self::Discard,
            (true, true) => Self::Replace,
            // The same after an ignored error.
            (true, false) => Self::Keep,
        }
    }
}

/// The failed and pending attempts of handlers, for one object.
#[derive(Clone, Debug, Default)]
pub struct Attempts {
    records: Vec<Record>,
}

#[derive(Clone, Debug)]
struct Record {
    id: HandlerId,
    started: Timestamp,
    retries: u32,
    /// The time of the next attempt; `None` for never.
    next: Option<Timestamp>,
}

impl Attempts {
    /// Returns `true` if there are no failures.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the number of attempts and the time of the first one, if the handler may be called.
    pub fn next(&self, id: &str, now: Timestamp) -> Option<(u32, Timestamp)> {
        match self.records.iter().find(|record| *record.id == *id) {
            None => Some((0, now)),
            Some(record) if record.next.is_some_and(|next| next <= now) => {
                Some((record.retries, record.started))
            }
            Some(_) => None,
        }
    }

    /// Records the outcome of an attempt that began with the result of [`next`](Self::next).
    pub fn note(
        &mut self,
        id: &HandlerId,
        (retries, started): (u32, Timestamp),
        outcome: &Outcome,
        now: Timestamp,
    ) {
        self.records.retain(|record| record.id != *id);
        if outcome.is_final && outcome.error.is_none() {
            return;
        }
        let delay = outcome.delay.unwrap_or(Duration::ZERO);
        let next = now.checked_add(delay).unwrap_or(Timestamp::MAX);
        self.records.push(Record {
            id: Arc::clone(id),
            started,
            retries: retries.saturating_add(1),
            next: (!outcome.is_final).then_some(next),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::{ErrorsMode, Retrying};
    use crate::outcome::{Attempt, HandlerError, decide};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    fn outcome(errors: Option<ErrorsMode>, result: Result<(), HandlerError>) -> Outcome {
        let retrying = Retrying {
            errors,
            ..Retrying::default()
        };
        let attempt = Attempt {
            label: "Handler 'fn'",
            retrying: &retrying,
            default_errors: ErrorsMode::Ignored,
            default_backoff: Duration::from_secs(60),
            retries: 0,
            runtime: Duration::ZERO,
        };
        decide(&attempt, Duration::ZERO, result.map(|()| None))
    }

    fn temporary(delay: u64) -> Outcome {
        let delay = Some(Duration::from_secs(delay));
        outcome(None, Err(HandlerError::temporary("later", delay)))
    }

    #[test]
    fn every_outcome_has_its_effect() {
        use ErrorsMode::{Ignored, Permanent, Temporary};
        let boom = || HandlerError::arbitrary("boom");
        let cases = [
            (None, Ok(()), true, Effect::Replace),
            (None, Ok(()), false, Effect::Keep),
            (None, Err(boom()), false, Effect::Keep),
            (Some(Ignored), Err(boom()), false, Effect::Keep),
            (Some(Temporary), Err(boom()), false, Effect::Discard),
            (Some(Permanent), Err(boom()), false, Effect::Discard),
            (
                None,
                Err(HandlerError::temporary("x", None)),
                false,
                Effect::Discard,
            ),
            (
                None,
                Err(HandlerError::permanent("x")),
                false,
                Effect::Discard,
            ),
            (None, Err(HandlerError::TimedOut), false, Effect::Discard),
            (Some(Temporary), Err(boom()), true, Effect::Discard),
        ];
        for (errors, result, returned, effect) in cases {
            let outcome = outcome(errors, result);
            assert_eq!(Effect::of(&outcome, returned), effect, "{outcome:?}");
        }
    }

    #[test]
    fn delayed_handlers_wait_and_failed_ones_are_not_retried() {
        let id: HandlerId = "fn".into();
        let mut attempts = Attempts::default();
        assert_eq!(attempts.next("fn", at(0)), Some((0, at(0))));
        attempts.note(&id, (0, at(0)), &temporary(10), at(1));
        assert_eq!(attempts.next("fn", at(10)), None);
        assert_eq!(attempts.next("fn", at(11)), Some((1, at(0))));
        assert_eq!(attempts.next("other", at(10)), Some((0, at(10))));
        let failed = outcome(None, Err(HandlerError::permanent("never")));
        attempts.note(&id, (1, at(0)), &failed, at(11));
        assert_eq!(attempts.next("fn", Timestamp::MAX), None);
    }

    #[test]
    fn success_is_not_stored() {
        let id: HandlerId = "fn".into();
        let mut attempts = Attempts::default();
        attempts.note(&id, (0, at(0)), &temporary(0), at(0));
        assert!(!attempts.is_empty());
        assert_eq!(attempts.next("fn", at(0)), Some((1, at(0))), "at once");
        attempts.note(&id, (1, at(0)), &outcome(None, Ok(())), at(0));
        assert!(attempts.is_empty());
    }

    #[test]
    fn extreme_delays_do_not_overflow() {
        let id: HandlerId = "fn".into();
        let mut attempts = Attempts::default();
        attempts.note(&id, (0, at(0)), &temporary(u64::MAX), at(0));
        assert_eq!(attempts.next("fn", at(1_000_000)), None);
    }
}
