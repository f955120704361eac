//! The stages of stopping: signal, cancellation, abandonment.

use std::time::Duration;

use super::StopReason;
use crate::handler::{Cancellation, HandlerKind};

/// The next step of stopping a daemon or a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The action, if a new one is due.
    pub action: Option<Action>,
    /// The delay until the next step; `None` if there is none.
    pub delay: Option<Duration>,
}

/// An action to make a daemon or a timer end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Signals it to end by itself.
    Signal,
    /// Cancels it.
    Cancel,
    /// Stops waiting for it.
    Abandon,
}

impl Action {
    /// Returns the reason of an action.
    pub fn reason(self) -> StopReason {
        match self {
            Self::Signal => StopReason::DAEMON_SIGNALLED,
            Self::Cancel => StopReason::DAEMON_CANCELLED,
            Self::Abandon => StopReason::DAEMON_ABANDONED,
        }
    }
}

/// Returns the next step for one that was signalled this long ago, for these reasons.
///
/// Each action is returned once: the reasons contain the previous ones.
pub fn next_step(
    age: Duration,
    reasons: StopReason,
    cancellation: &Cancellation,
    polling: Duration,
) -> Step {
    if reasons.contains(StopReason::DONE) {
        return Step {
            action: None,
            delay: None,
        };
    }
    let backoff = cancellation.backoff.unwrap_or_default();
    let (action, delay) = match cancellation.timeout {
        _ if age < backoff => (Some(Action::Signal), Some(backoff.saturating_sub(age))),
        None => (None, Some(cancellation.polling.unwrap_or(polling))),
        Some(timeout) => {
            let left = backoff.saturating_add(timeout).saturating_sub(age);
            if left.is_zero() {
                (Some(Action::Abandon), None)
            } else {
                (Some(Action::Cancel), Some(left))
            }
        }
    };
    Step {
        action: action.filter(|action| !reasons.contains(action.reason())),
        delay,
    }
}

/// Returns the longest time that any of these may need to end on exit.
pub fn longest_exit(kinds: impl IntoIterator<Item = HandlerKind>) -> Duration {
    let times = kinds.into_iter().map(|kind| match kind {
        HandlerKind::Daemon(cancellation) => {
            let backoff = cancellation.backoff.unwrap_or_default();
            backoff.saturating_add(cancellation.timeout.unwrap_or_default())
        }
        _ => Duration::ZERO,
    });
    times.max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handler::Timing;

    const POLLING: Duration = Duration::from_secs(60);

    fn secs(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn cancellation(backoff: Option<f64>, timeout: Option<f64>) -> Cancellation {
        Cancellation {
            backoff: backoff.map(secs),
            timeout: timeout.map(secs),
            polling: None,
        }
    }

    #[test]
    fn steps_match_the_table() {
        const SET: StopReason = StopReason::RESOURCE_DELETED;
        use Action::{Abandon, Cancel, Signal};
        for (backoff, timeout, age, action, delay) in [
            // No limits: it is polled from time to time.
            (None, None, 0.0, None, Some(60.0)),
            (None, None, 1000.0, None, Some(60.0)),
            // Only the backoff is limited.
            (Some(3.0), None, 0.0, Some(Signal), Some(3.0)),
            (Some(3.0), None, 2.5, Some(Signal), Some(0.5)),
            (Some(3.0), None, 3.0, None, Some(60.0)),
            // Only the timeout is limited.
            (None, Some(5.0), 0.0, Some(Cancel), Some(5.0)),
            (None, Some(5.0), 4.0, Some(Cancel), Some(1.0)),
            (None, Some(5.0), 5.0, Some(Abandon), None),
            // Both are limited.
            (Some(3.0), Some(5.0), 0.0, Some(Signal), Some(3.0)),
            (Some(3.0), Some(5.0), 3.0, Some(Cancel), Some(5.0)),
            (Some(3.0), Some(5.0), 7.5, Some(Cancel), Some(0.5)),
            (Some(3.0), Some(5.0), 8.0, Some(Abandon), None),
            (Some(3.0), Some(5.0), 80.0, Some(Abandon), None),
            // No time at all.
            (Some(0.0), Some(0.0), 0.0, Some(Abandon), None),
            (None, Some(0.0), 0.0, Some(Abandon), None),
        ] {
            let cancellation = cancellation(backoff, timeout);
            let case = format!("{cancellation:?} at {age}");
            let delay = delay.map(secs);
            let step = next_step(secs(age), SET, &cancellation, POLLING);
            assert_eq!(step, Step { action, delay }, "{case}");
            // Previous actions are not repeated, and the delay is the same.
            let reasons = action.map_or(SET, |action| SET | action.reason());
            let again = next_step(secs(age), reasons, &cancellation, POLLING);
            assert_eq!(
                again,
                Step {
                    action: None,
                    delay
                },
                "{case}, again"
            );
            // One that has ended is not awaited.
            let ended = next_step(secs(age), SET | StopReason::DONE, &cancellation, POLLING);
            let nothing = Step {
                action: None,
                delay: None,
            };
            assert_eq!(ended, nothing, "{case}, ended");
        }
    }

    #[test]
    fn own_polling_takes_precedence_over_settings() {
        let own = Cancellation {
            polling: Some(secs(7.0)),
            ..Cancellation::NONE
        };
        let step = next_step(secs(0.0), StopReason::RESOURCE_DELETED, &own, POLLING);
        assert_eq!(step.delay, Some(secs(7.0)));
    }

    #[test]
    fn timeline_of_an_unresponsive_daemon() {
        let cancellation = cancellation(Some(3.0), Some(5.0));
        let (mut age, mut reasons) = (secs(0.0), StopReason::RESOURCE_DELETED);
        let mut timeline = Vec::new();
        loop {
            let step = next_step(age, reasons, &cancellation, POLLING);
            let action = step.action.unwrap();
            timeline.push((age.as_secs(), action));
            reasons |= action.reason();
            let Some(delay) = step.delay else { break };
            age += delay;
        }
        let expected = [
            (0, Action::Signal),
            (3, Action::Cancel),
            (8, Action::Abandon),
        ];
        assert_eq!(timeline, expected);
        assert_eq!(reasons.bits(), 4 + 32 + 64 + 128);
    }

    #[test]
    fn longest_exit_is_that_of_the_slowest_daemon() {
        let daemon = |backoff, timeout| HandlerKind::Daemon(cancellation(backoff, timeout));
        assert_eq!(longest_exit([]), Duration::ZERO);
        let kinds = [
            HandlerKind::Timer(Timing::ONCE),
            daemon(Some(3.0), None),
            daemon(Some(1.0), Some(4.0)),
            daemon(None, None),
        ];
        assert_eq!(longest_exit(kinds), secs(5.0));
    }
}
