//! A pseudo-random sequence for jitter and for choosing among equals. Not for secrets.

/// A SplitMix64 generator. The same seed gives the same sequence, so tests are repeatable.
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64(u64);

impl SplitMix64 {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number of the sequence.
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_depends_on_the_seed_only() {
        let sequence = |seed| {
            let mut random = SplitMix64::new(seed);
            [random.next(), random.next(), random.next()]
        };
        assert_eq!(sequence(5), sequence(5));
        assert_ne!(sequence(5), sequence(6));
        // The published first value of SplitMix64 for the seed 0.
        assert_eq!(SplitMix64::new(0).next(), 0xE220_A839_7B1D_CDAF);
    }
}
