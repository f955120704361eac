//! Leader election by a Lease of the group `coordination.k8s.io`, in the format of client-go.
//!
//! One [`Candidate`] decides about one Lease. It is pure: the engine reads and writes the object, and
//! passes monotonic times. Timestamps in the object are for humans: a Lease counts as abandoned when
//! this process has seen it unchanged for its duration, so that neither wrong nor jumping wall clocks
//! matter.
//!
//! ```text
//!            absent, released, or unchanged for its duration
//! Follower ─────────────────────────────────────────────────► write ── accepted ──► Leader
//!     ▲                                                         │                    │   ▲ │
//!     │                                                conflict │          renew_deadline│ │ renewed
//!     └─────────────────────────────────────────────────────────┴────────────────────┴───┴─┘
//! ```

mod candidate;
mod record;

pub use candidate::{Candidate, DuplicateIdentity, Intent};
pub use record::{LeaseRecord, Malformed};

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
