//! Unique names, also across runs on the same server.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Returns twelve random characters that are valid in Kubernetes names and DNS labels.
pub(crate) fn suffix() -> String {
    // RandomState is seeded by the operating system and differs per call, which suffices; a random
    // number generator would be another dependency.
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
