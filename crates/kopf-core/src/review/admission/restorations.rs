//! Back-off of writes that undo the changes of other clients.

use std::time::Duration;

use jiff::Timestamp;

/// Number of restorations without a delay: an operator that exits and a user that removes the object are no
/// fight.
const IMMEDIATE: u32 = 2;

/// First delay; it doubles with every further restoration.
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// Longest delay between two restorations.
const LONGEST_DELAY: Duration = Duration::from_secs(300);

/// Time without restorations after which the delays begin again. Longer than the longest delay, so that
/// a client that undoes every restoration never resets them.
const CALM: Duration = Duration::from_secs(900);

/// Counter of restorations of one configuration object.
///
/// The first two restorations are immediate. If another client keeps changing the object, the
/// following ones are delayed: 1, 2, 4… up to 300 seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restorations {
    count: u32,
    last: Option<Timestamp>,
}

impl Restorations {
    /// Returns the delay of a restoration that becomes necessary now.
    pub fn delay(&self, now: Timestamp) -> Duration {
        match self.recent(now).checked_sub(IMMEDIATE) {
            None => Duration::ZERO,
            Some(power) => {
                let factor = 1_u32.checked_shl(power).unwrap_or(u32::MAX);
                FIRST_DELAY.saturating_mul(factor).min(LONGEST_DELAY)
            }
        }
    }

    /// Counts a restoration, whether it has succeeded or not.
    pub fn record(&mut self, now: Timestamp) {
        self.count = self.recent(now).saturating_add(1);
        self.last = Some(now);
    }

    /// Number of restorations since the last calm period.
    fn recent(&self, now: Timestamp) -> u32 {
        let is_calm = self
            .last
            .is_none_or(|last| now.duration_since(last).unsigned_abs() >= CALM);
        if is_calm { 0 } else { self.count }
    }
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn delays_grow_up_to_a_limit() {
        let mut now = Timestamp::UNIX_EPOCH;
        let mut restorations = Restorations::default();
        let mut delays = Vec::new();
        for _ in 0..100 {
            let delay = restorations.delay(now);
            delays.push(delay.as_secs());
            now += delay;
            restorations.record(now);
        }
        assert_eq!(delays[..7], [0, 0, 1, 2, 4, 8, 16]);
        assert!(delays.windows(2).all(|pair| pair[0] <= pair[1]));
        assert_eq!(delays[99], 300);
    }

    #[test]
    fn delays_begin_again_after_a_calm_period() {
        let mut now = Timestamp::UNIX_EPOCH;
        let mut restorations = Restorations::default();
        for _ in 0..3 {
            restorations.record(now);
        }
        now += SignedDuration::from_secs(899);
        assert_eq!(restorations.delay(now), Duration::from_secs(2));
        now += SignedDuration::from_secs(1);
        assert_eq!(restorations.delay(now), Duration::ZERO);
        restorations.record(now);
        assert_eq!(restorations.delay(now), Duration::ZERO);
        restorations.record(now);
        assert_eq!(restorations.delay(now), Duration::from_secs(1));
    }
}
