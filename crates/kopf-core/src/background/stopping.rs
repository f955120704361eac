//! The stages of stopping: told to end, cancelled, abandoned.

use std::time::Duration;

use super::StopReason;
use crate::handler::{Cancellation, HandlerKind};

/// What is to be done now about a daemon or a timer that is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is to be done that was not done before.
    pub action: Option<Action>,
    /// When to look again; none is never: nothing is waited for.
    pub delay: Option<Duration>,
}

/// What is to be done to make it end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Let it end by itself for a while.
    Signal,
    /// Cancel it.
    Cancel,
    /// Do not wait for it any longer.
    Abandon,
}

impl Action {
    /// What it is called among the reasons.
    pub fn reason(self) -> StopReason {
        match self {
            Self::Signal => StopReason::DAEMON_SIGNALLED,
            Self::Cancel => StopReason::DAEMON_CANCELLED,
            Self::Abandon => StopReason::DAEMON_ABANDONED,
        }
    }
}

/// What is to be done about one that was told to end so long ago, for these reasons.
///
/// Each action is named once: the reasons tell what was done already.
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

/// The longest time that any of these can take to end when the operator does.
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
    fn the_whole_table() {
        const SET: StopReason = StopReason::RESOURCE_DELETED;
        use Action::{Abandon, Cancel, Signal};
        for (backoff, timeout, age, action, delay) in [
            // Nothing is limited: it is looked at from time to time.
            (None, None, 0.0, None, Some(60.0)),
            (None, None, 1000.0, None, Some(60.0)),
            // Only the beginning is limited.
            (Some(3.0), None, 0.0, Some(Signal), Some(3.0)),
            (Some(3.0), None, 2.5, Some(Signal), Some(0.5)),
            (Some(3.0), None, 3.0, None, Some(60.0)),
            // Only the end is limited.
            (None, Some(5.0), 0.0, Some(Cancel), Some(5.0)),
            (None, Some(5.0), 4.0, Some(Cancel), Some(1.0)),
            (None, Some(5.0), 5.0, Some(Abandon), None),
            // Both are.
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
            // What was done is not done again, and the time is the same.
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
            // What has ended is not waited for.
            let ended = next_step(secs(age), SET | StopReason::DONE, &cancellation, POLLING);
            let nothing = Step {
                action: None,
                delay: None,
            };
            assert_eq!(ended, nothing, "{case}, ended");
        }
    }

    #[test]
    fn own_polling_goes_before_that_of_the_settings() {
        let own = Cancellation {
            polling: Some(secs(7.0)),
            ..Cancellation::NONE
        };
        let step = next_step(secs(0.0), StopReason::RESOURCE_DELETED, &own, POLLING);
        assert_eq!(step.delay, Some(secs(7.0)));
    }

    #[test]
    fn timeline_of_a_daemon_that_does_not_listen() {
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
    fn the_operator_waits_for_the_slowest_daemon() {
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
