//! One replica and one Lease.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::Timing;
use super::record::{LeaseRecord, held, released};
use super::sighting::Sighting;
use crate::moment::Moment;

/// The state of one replica in the election for one Lease. See the module.
#[derive(Clone, Debug)]
pub struct Candidate {
    identity: String,
    timing: Timing,
    standing: Standing,
    seen: Seen,
    /// The Lease must be read before the next decision.
    is_stale: bool,
    /// This process has tried to take the Lease, so its identity in the Lease is its own.
    attempted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Another replica holds the Lease, or none.
    Follower,
    /// This replica holds it since the request that began at this moment, and has seen no other holder
    /// since then.
    Holder { renewed: Moment },
}

/// The last known state of the Lease.
#[derive(Clone, Debug)]
enum Seen {
    Unknown,
    /// This replica has released it, and another one may have taken it since then.
    Resigned,
    Absent {
        /// When it can be created. A deleted Lease is not free immediately: its holder notices the
        /// deletion only at the next renewal.
        free_at: Moment,
    },
    Present(Sighting),
}

/// The next write to the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// Create it.
    Create,
    /// Replace it, if it still has this version.
    Update {
        /// The resource version.
        version: String,
    },
}

/// The Lease is held by the identity of this process, which has not taken it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "another process has the identity {identity:?}: give each replica its own, for example by POD_ID \
     from metadata.name, or by not setting an identity at all"
)]
pub struct DuplicateIdentity {
    /// The identity.
    pub identity: String,
}

impl Candidate {
    /// Returns a follower that has not seen the Lease yet.
    pub fn new(identity: impl Into<String>, timing: Timing) -> Self {
        Self {
            identity: identity.into(),
            timing,
            standing: Standing::Follower,
            seen: Seen::Unknown,
            is_stale: true,
            attempted: false,
        }
    }

    /// Notes the state of the Lease that the server has returned. A holder that finds another one steps
    /// down.
    ///
    /// # Errors
    ///
    /// Another process uses the same identity.
    pub fn observe(
        &mut self,
        found: Option<LeaseRecord>,
        now: Moment,
    ) -> Result<(), DuplicateIdentity> {
        self.is_stale = false;
        let Some(record) = found else {
            self.observe_absence(now);
            return Ok(());
        };
        let is_own = record.holder == self.identity;
        if is_own && !self.attempted {
            let identity = self.identity.clone();
            return Err(DuplicateIdentity { identity });
        }
        if !is_own {
            self.standing = Standing::Follower;
        }
        match &mut self.seen {
            Seen::Present(sighting) => sighting.update(record, now),
            Seen::Unknown | Seen::Resigned | Seen::Absent { .. } => {
                self.seen = Seen::Present(Sighting::new(record, now));
            }
        }
        Ok(())
    }

    /// The holder of a deleted Lease creates it again, unless its time is over: other replicas may have
    /// held it since then.
    fn observe_absence(&mut self, now: Moment) {
        if self.valid_until().is_some_and(|until| until <= now) {
            self.standing = Standing::Follower;
        }
        self.seen = match &self.seen {
            Seen::Absent { free_at } => Seen::Absent { free_at: *free_at },
            Seen::Unknown => Seen::Absent { free_at: now },
            Seen::Present(sighting) if sighting.record().holder == self.identity => {
                Seen::Absent { free_at: now }
            }
            // Another replica may have held it when it was deleted.
            Seen::Present(_) | Seen::Resigned => Seen::Absent {
                free_at: now.after(self.timing.lease_duration),
            },
        };
    }

    /// Returns `true` if the Lease must be read before the next decision.
    pub fn is_unknown(&self) -> bool {
        self.is_stale
    }

    /// Marks the Lease as changed by another client: it must be read again.
    pub fn conflicted(&mut self) {
        self.is_stale = true;
    }

    /// Returns `true` if the Lease can be taken or renewed now.
    pub fn is_available(&self, now: Moment) -> bool {
        self.available_at().is_some_and(|at| at <= now)
    }

    /// Returns the time from which the Lease can be taken or renewed, unless another replica renews it;
    /// `None` if it must be read first.
    pub fn available_at(&self) -> Option<Moment> {
        if self.is_stale {
            return None;
        }
        match &self.seen {
            Seen::Unknown | Seen::Resigned => None,
            Seen::Absent { free_at } => Some(*free_at),
            Seen::Present(sighting) if self.is_of_another(sighting.record()) => {
                Some(sighting.expires_at(self.timing.lease_duration))
            }
            Seen::Present(_) => Some(Moment::default()),
        }
    }

    fn is_of_another(&self, record: &LeaseRecord) -> bool {
        !record.is_released() && record.holder != self.identity
    }

    /// Returns the write that takes or renews the Lease; `None` if another replica holds it.
    pub fn intent(&self, now: Moment) -> Option<Intent> {
        if !self.is_available(now) {
            return None;
        }
        match &self.seen {
            Seen::Unknown | Seen::Resigned => None,
            Seen::Absent { .. } => Some(Intent::Create),
            Seen::Present(sighting) => Some(Intent::Update {
                version: sighting.record().version.clone(),
            }),
        }
    }

    /// Returns the fields of the spec for [`intent`](Self::intent), which also restore what other clients
    /// have edited. The request counts as an attempt even if no response arrives.
    pub fn claim(&mut self, now: Timestamp) -> Map<String, Value> {
        self.attempted = true;
        let before = self.record();
        held(before, &self.identity, self.timing.lease_seconds(), now)
    }

    /// Returns the write that releases the Lease; `None` if this replica does not hold it.
    pub fn release(&self, now: Timestamp) -> Option<Map<String, Value>> {
        let record = self.record()?;
        (record.holder == self.identity).then(|| released(record, now))
    }

    /// Returns the last known record; `None` if the Lease is unknown or does not exist.
    pub fn record(&self) -> Option<&LeaseRecord> {
        match &self.seen {
            Seen::Present(sighting) => Some(sighting.record()),
            Seen::Unknown | Seen::Resigned | Seen::Absent { .. } => None,
        }
    }

    /// Returns the identity of the other replica that holds the Lease, as far as this one has seen.
    pub fn other_holder(&self) -> Option<&str> {
        let record = self.record().filter(|record| self.is_of_another(record))?;
        Some(&record.holder)
    }

    /// Notes that the server has accepted a claim whose request began at this moment.
    pub fn accepted(&mut self, record: LeaseRecord, began: Moment) {
        self.standing = Standing::Holder { renewed: began };
        self.seen = Seen::Present(Sighting::new(record, began));
        self.is_stale = false;
    }

    /// Notes that the server has accepted the release.
    pub fn resigned(&mut self) {
        self.standing = Standing::Follower;
        self.seen = Seen::Resigned;
        self.is_stale = true;
    }

    /// Returns the end of the time in which this replica may act, which can be in the past; `None` if it
    /// does not hold the Lease. It is counted from the beginning of the last accepted request, so it ends
    /// before other replicas take over.
    ///
    /// A holder whose time is over stays the holder until it sees another one: the next accepted renewal
    /// proves that the Lease was not taken in between.
    pub fn valid_until(&self) -> Option<Moment> {
        match self.standing {
            Standing::Follower => None,
            Standing::Holder { renewed } => Some(renewed.after(self.timing.renew_deadline)),
        }
    }
}

#[cfg(test)]
mod tests;
