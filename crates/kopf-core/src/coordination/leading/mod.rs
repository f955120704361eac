//! Leader election by a Lease of the group `coordination.k8s.io`, in the format of client-go.
//!
//! One [`Candidate`] decides about one Lease. It is pure: the engine reads and writes the object, and
//! passes monotonic times. Timestamps in the object are for humans: a Lease counts as abandoned when
//! this process has seen it unchanged for its duration, so that neither wrong nor jumping wall clocks
//! matter.
//!
//! ```text
//!            absent, released, or not renewed for its duration        renew_deadline
//! Follower ────────────────────────────────────────────────► Holder ────────────────► Overdue
//!     ▲                                                        │ ▲        renewed       │ │
//!     │                                                        │ └──────────────────────┘ │
//!     └─────────────────────── another holder ─────────────────┴──────────────────────────┘
//! ```
//!
//! A holder acts until `renew_deadline` after the beginning of its last accepted request. After that, it
//! begins nothing and writes nothing, but it is still the holder: a renewal that is accepted later proves
//! that no other replica has taken the Lease meanwhile, and the work continues.

mod candidate;
mod record;
mod sighting;

pub use candidate::{Candidate, DuplicateIdentity, Intent};
pub use record::{LeaseRecord, Malformed};
pub(crate) use sighting::Sighting;

use std::time::Duration;

/// Label of the objects of a group of replicas: the name of the group.
pub const GROUP_LABEL: &str = "kopf.dev/replicas";
/// Label with the purpose of such an object: `leader`, `member`, `shard` or `certificate`. Leases of other programs do
/// not have it.
pub const ROLE_LABEL: &str = "kopf.dev/role";

/// The times of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Other replicas take the Lease when it is unchanged for this time.
    pub lease_duration: Duration,
    /// The holder stops handling when it could not renew the Lease for this time.
    pub renew_deadline: Duration,
    /// Interval of attempts to renew or to take the Lease.
    pub retry_period: Duration,
}

impl Timing {
    /// Returns the time without renewals after which daemons and timers are stopped: halfway between the
    /// end of the own activity and the takeover by others, so that slow renewals do not restart daemons,
    /// and daemons end before those of the next holder start.
    pub fn stop_after(&self) -> Duration {
        let margin = self.lease_duration.saturating_sub(self.renew_deadline);
        self.renew_deadline.saturating_add(margin / 2)
    }

    /// Returns the time without renewals after which objects are not kept for the next renewal any longer.
    /// Renewals of up to `renew_deadline`, one after another, take less.
    pub fn leave_after(&self) -> Duration {
        self.lease_duration
            .max(self.renew_deadline)
            .saturating_mul(2)
    }

    /// Returns the duration as it is written to the Lease: whole seconds, at least one.
    pub fn lease_seconds(&self) -> i32 {
        i32::try_from(self.lease_duration.as_secs()).map_or(i32::MAX, |seconds| seconds.max(1))
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }
}
