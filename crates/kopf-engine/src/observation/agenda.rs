//! The schedule for scanning API groups again.
//!
//! A group is scanned when one of its CRDs has changed, and a few times after that, because
//! discovery lags behind the CRDs. A group whose scan has failed is retried with growing delays.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

/// Delays between the scans after a change.
const CONFIRMATIONS: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(5),
    Duration::from_secs(30),
];

/// Delay after the first failure; doubled with every further one.
const RETRY: Duration = Duration::from_secs(5);
const RETRY_LIMIT: Duration = Duration::from_secs(300);

/// The schedule of all groups.
#[derive(Debug, Default)]
pub(super) struct Agenda(BTreeMap<String, Visit>);

#[derive(Debug)]
struct Visit {
    at: Instant,
    failures: u32,
    confirmed: usize,
}

impl Agenda {
    /// Schedules scans of a changed group.
    pub(super) fn changed(&mut self, group: &str, now: Instant) {
        let failures = self.failures(group);
        let visit = Visit {
            at: now,
            failures,
            confirmed: 0,
        };
        self.0.insert(group.to_owned(), visit);
    }

    /// Records a successful scan. Returns `true` if it is the first one after failures.
    pub(super) fn succeeded(&mut self, group: &str, now: Instant) -> bool {
        let Some(visit) = self.0.get_mut(group) else {
            return false;
        };
        let has_failed = std::mem::take(&mut visit.failures) > 0;
        match CONFIRMATIONS.get(visit.confirmed) {
            Some(delay) => {
                visit.at = now + *delay;
                visit.confirmed += 1;
            }
            None => {
                self.0.remove(group);
            }
        }
        has_failed
    }

    /// Records a failed scan. Returns `true` if it is the first failure.
    pub(super) fn failed(&mut self, group: &str, now: Instant) -> bool {
        let failures = self.failures(group);
        let delay = RETRY.saturating_mul(2_u32.saturating_pow(failures));
        let visit = Visit {
            at: now + delay.min(RETRY_LIMIT),
            failures: failures.saturating_add(1),
            // Confirmations are not needed because a retry follows.
            confirmed: CONFIRMATIONS.len(),
        };
        self.0.insert(group.to_owned(), visit);
        failures == 0
    }

    /// Returns the groups that are due.
    pub(super) fn due(&self, now: Instant) -> BTreeSet<String> {
        let due = self.0.iter().filter(|(_, visit)| visit.at <= now);
        due.map(|(group, _)| group.clone()).collect()
    }

    /// Waits until a group is due. Cancel-safe.
    pub(super) async fn wait(&self) {
        match self.0.values().map(|visit| visit.at).min() {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    fn failures(&self, group: &str) -> u32 {
        self.0.get(group).map_or(0, |visit| visit.failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn groups(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_changed_group_is_scanned_at_once_and_confirmed_later() {
        let mut agenda = Agenda::default();
        let start = Instant::now();
        agenda.changed("a", start);
        let mut looks = Vec::new();
        for _ in 0..4 {
            agenda.wait().await;
            assert_eq!(agenda.due(Instant::now()), groups(&["a"]));
            looks.push(start.elapsed().as_secs());
            assert!(!agenda.succeeded("a", Instant::now()));
        }
        assert_eq!(looks, [0, 1, 6, 36]);
        assert_eq!(agenda.due(start + Duration::from_secs(3_600)), groups(&[]));
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_retried_with_growing_delays() {
        let mut agenda = Agenda::default();
        let start = Instant::now();
        assert!(agenda.failed("a", start), "the first failure is reported");
        let mut looks = Vec::new();
        for _ in 0..8 {
            agenda.wait().await;
            looks.push(start.elapsed().as_secs());
            assert!(
                !agenda.failed("a", Instant::now()),
                "later failures are not reported"
            );
        }
        assert_eq!(looks, [5, 15, 35, 75, 155, 315, 615, 915]);
        assert!(
            agenda.succeeded("a", Instant::now()),
            "the recovery is reported"
        );
        assert!(agenda.due(start + RETRY_LIMIT * 100).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn groups_have_separate_schedules() {
        let mut agenda = Agenda::default();
        let start = Instant::now();
        agenda.failed("a", start);
        agenda.changed("b", start);
        assert_eq!(agenda.due(start), groups(&["b"]));
        assert_eq!(agenda.due(start + RETRY), groups(&["a", "b"]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_does_not_hide_that_the_group_has_failed_before() {
        let mut agenda = Agenda::default();
        agenda.failed("a", Instant::now());
        agenda.changed("a", Instant::now());
        assert!(!agenda.failed("a", Instant::now()));
    }
}
