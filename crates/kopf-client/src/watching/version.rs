//! Resource versions of one stream.

/// The resource version to watch from, and the newest one since the last listing.
#[derive(Clone, Debug, Default)]
pub(super) struct Versions {
    current: String,
    newest: String,
}

impl Versions {
    /// Returns the version to watch from; empty if the server does not send any.
    pub(super) fn current(&self) -> &str {
        &self.current
    }

    /// Stores the version of a complete listing.
    pub(super) fn list(&mut self, version: String) {
        self.newest.clone_from(&version);
        self.current = version;
    }

    /// Stores the version of a line. Returns `true` if it is newer than all versions since the last
    /// listing: repeated versions do not count as progress.
    pub(super) fn see(&mut self, version: &str) -> bool {
        version.clone_into(&mut self.current);
        let is_newer = is_newer(version, &self.newest);
        if is_newer {
            version.clone_into(&mut self.newest);
        }
        is_newer
    }
}

/// Compares integers as such. Other versions have no order: any difference counts as newer.
fn is_newer(version: &str, known: &str) -> bool {
    match (version.parse::<u64>(), known.parse::<u64>()) {
        (Ok(version), Ok(known)) => version > known,
        _ => version != known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_versions_do_not_count_as_progress() {
        let mut versions = Versions::default();
        versions.list("9".to_owned());
        assert!(!versions.see("9"));
        assert!(versions.see("10"), "as numbers, not as text");
        assert!(!versions.see("9"));
        assert!(!versions.see("10"), "it was seen before");
        assert_eq!(versions.current(), "10");
        assert!(versions.see("11"));
    }

    #[test]
    fn listing_resets_the_versions() {
        let mut versions = Versions::default();
        versions.list("500".to_owned());
        versions.list("7".to_owned());
        assert_eq!(versions.current(), "7");
        assert!(versions.see("8"));
    }

    #[test]
    fn unordered_versions_are_compared_for_equality() {
        let mut versions = Versions::default();
        assert!(versions.see("b"));
        assert!(!versions.see("b"));
        assert!(versions.see("a"));
    }
}
