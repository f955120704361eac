//! The own write after which nothing was left to do about an object.

use kopf_core::cause::EventType;
use tokio::time::Instant;

use super::mailbox::Queued;

/// Versions that need not be looked at: the one that the write has made, of which all is known from
/// the answer, and all before it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Own {
    version: u64,
    /// Versions are compared for a short time only: a server that was restored from a backup
    /// counts from an earlier one.
    until: Instant,
}

impl Own {
    /// None for versions that cannot be compared.
    pub(crate) fn new(version: &str, until: Instant) -> Option<Self> {
        let version = version.parse().ok()?;
        Some(Self { version, until })
    }

    /// Whether this tells nothing new. The end of an object always does.
    pub(crate) fn covers(&self, entry: &Queued) -> bool {
        match entry {
            Queued::Event { event, version, .. } if *event != EventType::Deleted => {
                let version = version.as_deref().and_then(|text| text.parse::<u64>().ok());
                version.is_some_and(|version| version <= self.version)
                    && Instant::now() < self.until
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;

    fn entry(event: EventType, version: Option<&str>) -> Queued {
        Queued::Event {
            event,
            version: version.map(Into::into),
            raw: Bytes::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_is_older_is_covered_and_not_forever() {
        let until = Instant::now() + Duration::from_secs(5);
        let own = Own::new("10", until).unwrap();
        let covered = |event, version| own.covers(&entry(event, version));
        assert!(covered(EventType::Modified, Some("10")));
        assert!(covered(EventType::Modified, Some("9")));
        assert!(covered(EventType::Listed, Some("10")));
        assert!(!covered(EventType::Modified, Some("11")));
        assert!(!covered(EventType::Modified, Some("abc")));
        assert!(!covered(EventType::Modified, None));
        assert!(!covered(EventType::Deleted, Some("10")));
        assert!(!own.covers(&Queued::Vanished));
        tokio::time::advance(Duration::from_secs(5)).await;
        assert!(!covered(EventType::Modified, Some("10")));
    }

    #[test]
    fn versions_that_are_no_numbers_are_not_compared() {
        assert!(Own::new("abc", Instant::now()).is_none());
    }
}
