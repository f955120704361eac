//! The states of a pod over time, as a function of its age.

use std::time::Duration;

use super::Timing;
use super::behaviour::Behaviour;

/// The first delay between two restarts of a container, and the maximum.
const FIRST_BACK_OFF: Duration = Duration::from_secs(10);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(300);
/// The delay before a failed pull is retried.
const PULL_BACK_OFF: Duration = Duration::from_secs(10);

/// The exit of containers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit {
    pub(super) code: i64,
    pub(super) reason: &'static str,
}

impl Exit {
    pub(super) const SUCCESS: Self = Self {
        code: 0,
        reason: "Completed",
    };
    const ERROR: Self = Self {
        code: 1,
        reason: "Error",
    };
    const OUT_OF_MEMORY: Self = Self {
        code: 137,
        reason: "OOMKilled",
    };
}

/// The state of a pod that is bound to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Images are pulled, containers are created.
    Creating,
    /// Images cannot be pulled, for the given reason.
    Pulling(&'static str),
    /// Containers run and are ready.
    Ready,
    /// Containers run and are not ready.
    Unready,
    /// Containers have exited and wait for a restart.
    BackOff(Exit),
    /// Containers have exited permanently.
    Ended(Exit),
}

/// A state with the time until it changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimedState {
    pub(super) state: State,
    /// Restarts of containers.
    pub(super) restarts: i64,
    /// The time until the next state, if there is one.
    pub(super) next: Option<Duration>,
}

impl TimedState {
    fn lasting(state: State) -> Self {
        Self {
            state,
            restarts: 0,
            next: None,
        }
    }

    fn until(state: State, left: Duration) -> Self {
        Self {
            next: Some(left),
            ..Self::lasting(state)
        }
    }
}

/// Returns the state of a pod at an age. `policy` is its restart policy.
pub(super) fn at(
    behaviour: Option<Behaviour>,
    policy: &str,
    age: Duration,
    timing: Timing,
) -> TimedState {
    let Some(running) = age.checked_sub(timing.ready_after) else {
        return TimedState::until(State::Creating, timing.ready_after.saturating_sub(age));
    };
    let exit = match behaviour {
        Some(Behaviour::ImagePullError) => return pulling(running),
        Some(Behaviour::NeverReady) => return TimedState::lasting(State::Unready),
        Some(Behaviour::CrashLoop) => Exit::ERROR,
        Some(Behaviour::OomKill) => Exit::OUT_OF_MEMORY,
        // A pod that is already bound is not affected.
        Some(Behaviour::Pending) | None => return working(policy, running, timing),
    };
    if policy == "Never" {
        return TimedState::lasting(State::Ended(exit));
    }
    crashing(exit, running)
}

fn working(policy: &str, running: Duration, timing: Timing) -> TimedState {
    if policy == "Always" {
        return TimedState::lasting(State::Ready);
    }
    match timing.running_for.checked_sub(running) {
        Some(left) if !left.is_zero() => TimedState::until(State::Ready, left),
        _ => TimedState::lasting(State::Ended(Exit::SUCCESS)),
    }
}

fn pulling(trying: Duration) -> TimedState {
    match PULL_BACK_OFF.checked_sub(trying) {
        Some(left) if !left.is_zero() => TimedState::until(State::Pulling("ErrImagePull"), left),
        _ => TimedState::lasting(State::Pulling("ImagePullBackOff")),
    }
}

fn crashing(exit: Exit, since_first: Duration) -> TimedState {
    let (mut restarts, mut back_off, mut left) = (0, FIRST_BACK_OFF, since_first);
    while let Some(rest) = left.checked_sub(back_off) {
        if back_off == LONGEST_BACK_OFF {
            // From here on the steps are equal and are computed at once: a pod may be years old.
            let steps = rest.as_secs() / LONGEST_BACK_OFF.as_secs();
            restarts += 1 + i64::try_from(steps).unwrap_or_default();
            left = rest.saturating_sub(Duration::from_secs(steps * LONGEST_BACK_OFF.as_secs()));
            break;
        }
        restarts += 1;
        left = rest;
        back_off = (back_off * 2).min(LONGEST_BACK_OFF);
    }
    TimedState {
        state: State::BackOff(exit),
        restarts,
        next: Some(back_off.saturating_sub(left)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMING: Timing = Timing {
        ready_after: Duration::from_secs(1),
        running_for: Duration::from_secs(5),
    };

    fn state(behaviour: Option<Behaviour>, policy: &str, seconds: u64) -> TimedState {
        at(behaviour, policy, Duration::from_secs(seconds), TIMING)
    }

    #[test]
    fn pods_become_ready_after_the_delay() {
        let creating = at(None, "Always", Duration::from_millis(400), TIMING);
        assert_eq!(creating.state, State::Creating);
        assert_eq!(creating.next, Some(Duration::from_millis(600)));
        assert_eq!(state(None, "Always", 1), TimedState::lasting(State::Ready));
    }

    #[test]
    fn pods_without_restarts_complete() {
        assert_eq!(state(None, "Never", 3).next, Some(Duration::from_secs(3)));
        assert_eq!(
            state(None, "OnFailure", 6).state,
            State::Ended(Exit::SUCCESS)
        );
    }

    #[test]
    fn crashing_containers_are_restarted_with_growing_delays() {
        let crash = Some(Behaviour::CrashLoop);
        let restarts = |seconds: u64| state(crash, "Always", 1 + seconds).restarts;
        assert_eq!(
            [0, 9, 10, 29, 30, 70, 150, 310, 610, 910].map(restarts),
            [0, 0, 1, 1, 2, 3, 4, 5, 6, 7]
        );
        assert_eq!(
            state(crash, "Always", 12).next,
            Some(Duration::from_secs(19))
        );
        assert_eq!(
            state(crash, "Always", 1_000_000)
                .next
                .map(|next| next <= LONGEST_BACK_OFF),
            Some(true)
        );
        assert_eq!(state(crash, "Never", 1).state, State::Ended(Exit::ERROR));
    }

    #[test]
    fn images_that_cannot_be_pulled_keep_the_pod_pending() {
        let failing = Some(Behaviour::ImagePullError);
        assert_eq!(
            state(failing, "Always", 2).state,
            State::Pulling("ErrImagePull")
        );
        assert_eq!(
            state(failing, "Always", 20).state,
            State::Pulling("ImagePullBackOff")
        );
    }
}
