//! The operator's time: UTC that follows tokio's clock from the moment it was anchored.
//!
//! Everything that is written to objects or compared with what was written there comes from here,
//! so that a test with a paused runtime decides about the time of the whole operator. Deadlines
//! and delays are tokio's own business; nothing else in the engine reads the time of the system.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

/// How far the system's time can be from this one: it is adjusted by small steps all the time.
const TOLERANCE: Duration = Duration::from_secs(5);

/// How far tokio's clock can be from the system's if it is not in a test's hands.
const IN_STEP: Duration = Duration::from_secs(1);

/// UTC anchored at a moment of tokio's clock. Copies show the same time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    anchor: Instant,
    utc: Timestamp,
    follows_system: bool,
}

impl Clock {
    /// A clock that shows the system's time now, and goes on with tokio's.
    ///
    /// Small steps of the system's time are not followed: what was written before stays in order with
    /// what is written after. If it is far away, such as after the machine was suspended, or if it was
    /// wrong in the beginning, this clock follows it: others look at what is written, too. It does
    /// not while tokio's time is paused or advanced by a test.
    pub fn system() -> Self {
        Self {
            follows_system: true,
            ..Self::starting_at(Timestamp::now())
        }
    }

    /// A clock that shows `utc` now, and goes on with tokio's: for tests.
    pub fn starting_at(utc: Timestamp) -> Self {
        Self {
            anchor: Instant::now(),
            utc,
            follows_system: false,
        }
    }

    /// The time.
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

/// Whether this moment of tokio's clock is now, and not where a test wants it.
fn is_in_step(tokio: Instant) -> bool {
    // The only place where both are compared.
    #[allow(clippy::disallowed_methods)]
    let system = std::time::Instant::now();
    let tokio = tokio.into_std();
    let apart = system.saturating_duration_since(tokio) + tokio.saturating_duration_since(system);
    apart < IN_STEP
}

/// The anchored time, unless the system's is too far away from it.
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
    fn after_a_suspension_the_time_is_the_systems() {
        assert!(Clock::system().follows_system);
        // As if it stood still for decades.
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
    async fn the_time_of_a_test_is_its_own() {
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
    async fn goes_on_with_the_runtime() {
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
