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
pub(super) struct ScanSchedule(BTreeMap<String, ScheduledScan>);

#[derive(Debug)]
struct ScheduledScan {
    at: Instant,
    failures: u32,
    confirmed: usize,
}

impl ScanSchedule {
    /// Schedules scans of a changed group.
    pub(super) fn changed(&mut self, group: &str, now: Instant) {
        let failures = self.failures(group);
        let scan = ScheduledScan {
            at: now,
            failures,
            confirmed: 0,
        };
        self.0.insert(group.to_owned(), scan);
    }

    /// Records a successful scan. Returns `true` if it is the first one after failures.
    pub(super) fn succeeded(&mut self, group: &str, now: Instant) -> bool {
        let Some(scan) = self.0.get_mut(group) else {
            return false;
        };
        let has_failed = std::mem::take(&mut scan.failures) > 0;
        match CONFIRMATIONS.get(scan.confirmed) {
            Some(delay) => {
                scan.at = now + *delay;
                scan.confirmed += 1;
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
        let scan = ScheduledScan {
            at: now + delay.min(RETRY_LIMIT),
            failures: failures.saturating_add(1),
            // Confirmations are not needed because a retry follows.
            confirmed: CONFIRMATIONS.len(),
        };
        self.0.insert(group.to_owned(), scan);
        failures == 0
    }

    /// Returns the groups that are due.
    pub(super) fn due(&self, now: Instant) -> BTreeSet<String> {
        let due = self.0.iter().filter(|(_, scan)| scan.at <= now);
        due.map(|(group, _)| group.clone()).collect()
    }

    /// Waits until a group is due. Cancel-safe.
    pub(super) async fn wait(&self) {
        match self.0.values().map(|scan| scan.at).min() {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    fn failures(&self, group: &str) -> u32 {
        self.0.get(group).map_or(0, |scan| scan.failures)
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
        let mut schedule = ScanSchedule::default();
        let start = Instant::now();
        schedule.changed("a", start);
        let mut scans = Vec::new();
        for _ in 0..4 {
            schedule.wait().await;
            assert_eq!(schedule.due(Instant::now()), groups(&["a"]));
            scans.push(start.elapsed().as_secs());
            assert!(!schedule.succeeded("a", Instant::now()));
        }
        assert_eq!(scans, [0, 1, 6, 36]);
        assert_eq!(
            schedule.due(start + Duration::from_secs(3_600)),
            groups(&[])
        );
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_retried_with_growing_delays() {
        let mut schedule = ScanSchedule::default();
        let start = Instant::now();
        assert!(schedule.failed("a", start), "the first failure is reported");
        let mut scans = Vec::new();
        for _ in 0..8 {
            schedule.wait().await;
            scans.push(start.elapsed().as_secs());
            assert!(
                !schedule.failed("a", Instant::now()),
                "later failures are not reported"
            );
        }
        assert_eq!(scans, [5, 15, 35, 75, 155, 315, 615, 915]);
        assert!(
            schedule.succeeded("a", Instant::now()),
            "the recovery is reported"
        );
        assert!(schedule.due(start + RETRY_LIMIT * 100).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn groups_have_separate_schedules() {
        let mut schedule = ScanSchedule::default();
        let start = Instant::now();
        schedule.failed("a", start);
        schedule.changed("b", start);
        assert_eq!(schedule.due(start), groups(&["b"]));
        assert_eq!(schedule.due(start + RETRY), groups(&["a", "b"]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_does_not_hide_that_the_group_has_failed_before() {
        let mut schedule = ScanSchedule::default();
        schedule.failed("a", Instant::now());
        schedule.changed("a", Instant::now());
        assert!(!schedule.failed("a", Instant::now()));
    }
}
