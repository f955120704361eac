//! The clock of the operator: UTC, anchored to tokio's clock.
//!
//! All timestamps that are written to objects or compared with those come from this clock, so that
//! a test with a paused runtime controls the time of the whole operator. Deadlines and delays use
//! tokio's clock directly. The engine does not read the system time elsewhere.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// Tolerated difference from the system time, which is adjusted in small steps.
const TOLERANCE: Duration = Duration::from_secs(5);

/// Tolerated difference between tokio's clock and the monotonic system clock outside of tests.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

/// UTC anchored at an instant of tokio's clock. Copies show the same time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    anchor: Instant,
    utc: Timestamp,
    follows_system: bool,
}

impl Clock {
    /// Returns a clock that starts at the system time and advances with tokio's clock.
    ///
    /// Small steps of the system time are ignored, so that timestamps stay in order. Large steps,
    /// such as after a suspension of the machine, are followed because other clients compare the
    /// timestamps with their time. Steps are not followed while a test pauses or advances tokio's
    /// time.
    pub fn system() -> Self {
        Self {
            follows_system: true,
            ..Self::starting_at(Timestamp::now())
        }
    }

    /// Returns a clock that starts at `utc` and advances with tokio's clock, for tests.
    pub fn starting_at(utc: Timestamp) -> Self {
        Self {
            anchor: Instant::now(),
            utc,
            follows_system: false,
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Timestamp {
        let now = Instant::now();
        let passed = now.duration_since(self.anchor);
        let anchored = self.utc.checked_add(passed).unwrap_or(Timestamp::MAX);
        if self.follows_system && is_in_step(now) {
            follow(anchored, Timestamp::now())
        } else {
            anchored
        }
    }
}

/// Returns `true` if tokio's clock is not controlled by a test.
fn is_in_step(tokio: Instant) -> bool {
    // The only comparison of tokio's clock with the system's.
    #[allow(clippy::disallowed_methods)]
    let system = std::time::Instant::now();
    let tokio = tokio.into_std();
    let apart = system.saturating_duration_since(tokio) + tokio.saturating_duration_since(system);
    apart < CLOCK_TOLERANCE
}

/// Returns the anchored time, or the system time if the difference is too large.
fn follow(anchored: Timestamp, system: Timestamp) -> Timestamp {
    if anchored.duration_since(system).unsigned_abs() > TOLERANCE {
        system
    } else {
        anchored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_steps_of_the_system_are_followed_and_small_ones_are_not() {
        let time = |text: &str| text.parse::<Timestamp>().unwrap();
        let anchored = time("2026-01-01T12:00:00Z");
        for near in ["2026-01-01T12:00:05Z", "2026-01-01T11:59:55Z"] {
            assert_eq!(follow(anchored, time(near)), anchored, "{near}");
        }
        for far in ["2026-01-01T14:00:00Z", "2026-01-01T11:59:54Z"] {
            assert_eq!(follow(anchored, time(far)), time(far));
        }
    }

    #[test]
    fn clock_follows_the_system_after_a_suspension() {
        assert!(Clock::system().follows_system);
        // A suspension of decades.
        let suspended = Clock {
            follows_system: true,
            ..Clock::starting_at(Timestamp::UNIX_EPOCH)
        };
        let lately = "2020-01-01T00:00:00Z".parse().unwrap();
        assert!(suspended.now() > lately, "{}", suspended.now());
        let anchored = Clock::starting_at(Timestamp::UNIX_EPOCH);
        assert!(anchored.now() < lately, "{}", anchored.now());
    }

    #[tokio::test(start_paused = true)]
    async fn paused_tests_control_the_time() {
        let clock = Clock::system();
        let before = clock.now();
        tokio::time::advance(Duration::from_secs(86_400)).await;
        assert_eq!(clock.now().duration_since(before).as_secs(), 86_400);
    }

    #[tokio::test(start_paused = true)]
    async fn stands_still_while_the_time_is_paused() {
        let clock = Clock::starting_at(Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
        assert_eq!(clock.now(), Timestamp::UNIX_EPOCH);
    }

    #[tokio::test(start_paused = true)]
    async fn advances_with_the_runtime() {
        let clock = Clock::starting_at("2026-01-31T23:59:58Z".parse().unwrap());
        let copy = clock;
        tokio::time::sleep(Duration::from_secs(86_400)).await;
        assert_eq!(clock.now().to_string(), "2026-02-01T23:59:58Z");
        assert_eq!(copy.now(), clock.now());
    }

    #[tokio::test(start_paused = true)]
    async fn stops_at_the_end_of_time() {
        let clock = Clock::starting_at(Timestamp::MAX);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(clock.now(), Timestamp::MAX);
    }
}
