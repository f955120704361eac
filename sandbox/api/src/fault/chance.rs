//! Deterministic pseudo-random numbers: a function of the seed, the rule and the count.

use std::time::Duration;

/// Returns 64 well-mixed bits (the finalizer of SplitMix64).
fn mixed(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// Returns the roll of the n-th request that a rule has matched.
pub(super) fn roll(seed: u64, rule: u64, count: u64) -> u64 {
    mixed(mixed(mixed(seed) ^ rule) ^ count)
}

/// Returns `true` if a roll is within a probability from 0 to 1.
pub(super) fn within(roll: u64, probability: f64) -> bool {
    // The upper 53 bits fit exactly into a float; the fraction is always below 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    let fraction = (roll >> 11) as f64 / (1_u64 << 53) as f64;
    fraction < probability
}

/// Returns a duration from the range, derived from other bits than those that decided on the
/// strike.
pub(super) fn between(roll: u64, least: Duration, most: Duration) -> Duration {
    let span = u64::try_from(most.saturating_sub(least).as_nanos()).unwrap_or(u64::MAX);
    let nanos = match span.checked_add(1) {
        Some(choices) => mixed(roll) % choices,
        None => mixed(roll),
    };
    least.saturating_add(Duration::from_nanos(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_zero_and_one_are_exact() {
        for count in 0..1000 {
            assert!(within(roll(1, 2, count), 1.0));
            assert!(!within(roll(1, 2, count), 0.0));
        }
    }

    #[test]
    fn roll_depends_on_every_input() {
        let all = [roll(0, 0, 0), roll(1, 0, 0), roll(0, 1, 0), roll(0, 0, 1)];
        let distinct: std::collections::BTreeSet<u64> = all.into_iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn empty_or_reversed_range_is_its_lower_end() {
        let (one, two) = (Duration::from_secs(1), Duration::from_secs(2));
        assert_eq!(between(77, one, one), one);
        assert_eq!(between(77, two, one), two);
        assert!(between(u64::MAX, Duration::ZERO, Duration::MAX) <= Duration::MAX);
    }
}
