//! The operator's time: UTC that follows tokio's clock from the moment it was anchored.
//!
//! Everything that is written to objects or compared with what was written there comes from here,
//! so that a test with a paused runtime decides about the time of the whole operator. Deadlines
//! and delays are tokio's own business; nothing else in the engine reads the time of the system.

use jiff::Timestamp;
use tokio::time::Instant;

/// UTC anchored at a moment of tokio's clock. Copies show the same time.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    anchor: Instant,
    utc: Timestamp,
}

impl Clock {
    /// A clock that shows the system's time now, and goes on with tokio's.
    ///
    /// The system's time is read once. If it is set anew later, this clock does not jump: what was
    /// written before stays in order with what is written after.
    pub fn system() -> Self {
        Self::starting_at(Timestamp::now())
    }

    /// A clock that shows `utc` now, and goes on with tokio's: for tests.
    pub fn starting_at(utc: Timestamp) -> Self {
        Self {
            anchor: Instant::now(),
            utc,
        }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.utc
            .checked_add(self.anchor.elapsed())
            .unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
