//! The effects of held Leases on the operator, and their records in the log.

use std::pin::pin;
use std::time::Duration;

use jiff::Timestamp;
use kopf_core::leading::Timing;
use kopf_core::object::Moment;
use tokio::time::{Instant, sleep_until};
use tracing::{info, warn};

use super::assignment::Assignments;
use super::held_shards::{HeldShards, Renewed, Times};
use super::reporting::FailureLog;
use crate::clock::Clock;

/// The clocks of a replica.
#[derive(Clone, Copy, Debug)]
pub(super) struct Time {
    epoch: Instant,
    clock: Clock,
}

impl Time {
    pub(super) fn new(clock: Clock) -> Self {
        let epoch = Instant::now();
        Self { epoch, clock }
    }

    /// Returns the time of the rules.
    pub(super) fn now(&self) -> Moment {
        Moment::new(self.epoch.elapsed())
    }

    /// Returns the time that is written to Leases.
    pub(super) fn utc(&self) -> Timestamp {
        self.clock.now()
    }

    /// Converts a time of the rules.
    pub(super) fn instant(&self, moment: Moment) -> Instant {
        self.epoch + moment.since(Moment::default())
    }
}

/// The keeper of the held Leases: it stops handling when they are not renewed in time, even while a
/// renewal is in flight, and logs each state once.
pub(super) struct Keeper {
    pub(super) held_shards: HeldShards,
    pub(super) failures: FailureLog,
    timing: Timing,
    time: Time,
}

impl Keeper {
    pub(super) fn new(
        failures: FailureLog,
        assignments: Assignments,
        timing: Timing,
        time: Time,
    ) -> Self {
        Self {
            held_shards: HeldShards::new(assignments),
            failures,
            timing,
            time,
        }
    }

    /// Waits for requests, and applies the times of the held Leases meanwhile.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = self.expiration() => self.expire(),
            }
        }
    }

    /// Waits for the next time of the held Leases; forever if there is none. Cancel-safe.
    pub(super) async fn expiration(&self) {
        match self.held_shards.next_expiration() {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    /// Applies the times of the held Leases.
    pub(super) fn expire(&mut self) {
        let expired = self.held_shards.expire();
        let (about, cause) = (self.failures.about(), self.failures.cause());
        if !expired.overdue.is_empty() {
            let seconds = seconds(self.timing.renew_deadline);
            warn!(
                "No handlers are started, because {about} could not be renewed for {seconds} seconds: \
                 {cause}. Handling continues with the next renewal."
            );
        }
        if !expired.suspended.is_empty() {
            let seconds = seconds(self.timing.stop_after());
            warn!(
                "Daemons and timers are stopped, because {about} could not be renewed for {seconds} \
                 seconds: {cause}. Other replicas may take over."
            );
        }
    }

    /// Records that a shard is held, with the end of its validity.
    pub(super) fn renew(&mut self, shard: u32, until: Moment) -> Renewed {
        let Timing { renew_deadline, .. } = self.timing;
        let valid_until = self.time.instant(until);
        let after = |time: Duration| valid_until + time.saturating_sub(renew_deadline);
        let times = Times {
            valid_until,
            suspend_at: after(self.timing.stop_after()),
            stop_at: after(self.timing.leave_after()),
        };
        self.held_shards.renew(shard, times)
    }

    /// Logs that handling continues after a late renewal.
    pub(super) fn log_resumed(&self) {
        let about = self.failures.about();
        info!("Handling continues: the renewal of {about} has succeeded.");
    }
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
