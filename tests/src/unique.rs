//! Names that never meet another test's names, nor those of an earlier run on the same server.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Twelve random characters that are valid anywhere in a Kubernetes name or a DNS label.
pub(crate) fn suffix() -> String {
    // RandomState is seeded by the operating system and differs per call, which is all that is
    // needed here; a random-number crate would be one more dependency for one call.
    let random = RandomState::new().build_hasher().finish();
    format!("{:012x}", random & 0xffff_ffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::suffix;

    #[test]
    fn suffixes_differ() {
        assert_ne!(suffix(), suffix());
        assert_eq!(suffix().len(), 12);
    }
}
