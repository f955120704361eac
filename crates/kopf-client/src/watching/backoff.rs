//! How long to wait before the next try.

use std::time::Duration;

/// No wait gets longer by itself.
const LONGEST: Duration = Duration::from_secs(30);

/// Without this, a wait of zero would stay zero.
const SHORTEST: Duration = Duration::from_millis(10);

/// Waits that double with every failure, each a bit different from what everybody else waits. They
/// are the same for the same seed, so that tests are repeatable.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    first: Duration,
    failures: u32,
    random: u64,
}

impl Backoff {
    pub(super) fn new(first: Duration, seed: u64) -> Self {
        Self {
            first: first.clamp(SHORTEST, LONGEST),
            failures: 0,
            random: seed,
        }
    }

    /// It works again.
    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// How often it has failed since it worked.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// The wait after one more failure.
    pub(super) fn next(&mut self) -> Duration {
        self.from(self.first)
    }

    /// The same, for failures that usually need somebody to do something about them.
    pub(super) fn next_from(&mut self, first: Duration) -> Duration {
        self.from(first)
    }

    fn from(&mut self, first: Duration) -> Duration {
        let doubled = first.saturating_mul(1_u32.checked_shl(self.failures).unwrap_or(u32::MAX));
        self.failures = self.failures.saturating_add(1);
        self.scattered(doubled.min(LONGEST))
    }

    /// A bit less or more: from three to five quarters.
    pub(super) fn scattered(&mut self, wait: Duration) -> Duration {
        // SplitMix64: good enough to be different, and nothing else is needed.
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        let thousandths = u32::try_from(bits % 501).unwrap_or_default() + 750;
        wait.saturating_mul(thousandths) / 1000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_up_to_a_limit_and_start_again() {
        let mut backoff = Backoff::new(Duration::from_millis(100), 1);
        let mut expected = Duration::from_millis(100);
        for failures in 1..=80 {
            let wait = backoff.next();
            assert!(
                wait >= expected * 3 / 4 && wait <= expected * 5 / 4,
                "{wait:?}"
            );
            assert_eq!(backoff.failures(), failures);
            expected = (expected * 2).min(LONGEST);
        }
        backoff.reset();
        assert!(backoff.next() <= Duration::from_millis(125));
    }

    #[test]
    fn seeds_make_the_difference() {
        let waits = |seed| {
            let mut backoff = Backoff::new(Duration::from_secs(1), seed);
            [backoff.next(), backoff.next(), backoff.next()]
        };
        assert_eq!(waits(5), waits(5));
        assert_ne!(waits(5), waits(6));
    }

    #[test]
    fn zero_and_endless_are_limited() {
        assert!(Backoff::new(Duration::ZERO, 0).next() > Duration::ZERO);
        assert!(Backoff::new(Duration::MAX, 0).next() <= LONGEST * 5 / 4);
    }
}
