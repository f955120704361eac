//! The server's clock: UTC that follows tokio's time, so that tests can pause and advance it.

use jiff::Timestamp;
use tokio::time::Instant;

/// UTC anchored at a moment of tokio's clock.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    anchor: Instant,
    utc: Timestamp,
}

impl Clock {
    /// Returns a clock that shows `utc` now.
    pub fn starting_at(utc: Timestamp) -> Self {
        Self {
            anchor: Instant::now(),
            utc,
        }
    }

    /// Returns a clock that shows the system time.
    pub fn system() -> Self {
        Self::starting_at(Timestamp::now())
    }

    pub fn now(&self) -> Timestamp {
        self.utc
            .checked_add(self.anchor.elapsed())
            .unwrap_or(Timestamp::MAX)
    }

    /// Returns the time in the format of `metadata.creationTimestamp`: whole seconds.
    pub fn seconds(&self) -> String {
        rfc3339_seconds(self.now())
    }
}

/// Formats a time as RFC 3339 in UTC without a fraction, e.g. `2026-01-31T23:59:59Z`.
pub fn rfc3339_seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second())
        .unwrap_or(time)
        .to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn clock_follows_the_paused_time() {
        let clock = Clock::starting_at("2026-01-31T23:59:58Z".parse().unwrap());
        tokio::time::advance(Duration::from_millis(1_500)).await;
        assert_eq!(clock.seconds(), "2026-01-31T23:59:59Z");
    }
}
