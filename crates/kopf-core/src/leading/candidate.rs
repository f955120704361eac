//! One replica and one Lease.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::Timing;
use super::record::{LeaseRecord, held, released};
use crate::object::Moment;

/// The state of one replica in the election for one Lease. See the module.
#[derive(Clone, Debug)]
pub struct Candidate {
    identity: String,
    timing: Timing,
    standing: Standing,
    seen: Seen,
    /// This process has tried to take the Lease, so its identity in the Lease is its own.
    attempted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Another replica holds the Lease, or none.
    Follower,
    /// This replica holds it since the request that began at this moment.
    Leader { renewed: Moment },
}

/// The last known state of the Lease.
#[derive(Clone, Debug)]
enum Seen {
    Unknown,
    Absent {
        /// When it can be created. A deleted Lease is not free immediately: its holder notices the
        /// deletion only at the next renewal.
        free_at: Moment,
    },
    Present {
        record: LeaseRecord,
        /// When it was first seen like this.
        at: Moment,
    },
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
            attempted: false,
        }
    }

    /// Notes the state of the Lease that the server has returned.
    ///
    /// # Errors
    ///
    /// Another process uses the same identity.
    pub fn observe(
        &mut self,
        found: Option<LeaseRecord>,
        now: Moment,
    ) -> Result<(), DuplicateIdentity> {
        let Some(record) = found else {
            self.standing = Standing::Follower;
            self.seen = match &self.seen {
                Seen::Present { record, .. } if self.is_of_another(record) => Seen::Absent {
                    free_at: now.after(self.duration_of(record)),
                },
                Seen::Absent { free_at } => Seen::Absent { free_at: *free_at },
                Seen::Present { .. } | Seen::Unknown => Seen::Absent { free_at: now },
            };
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
        match &self.seen {
            Seen::Present { record: known, .. } if *known == record => {}
            _ => self.seen = Seen::Present { record, at: now },
        }
        Ok(())
    }

    /// Returns `true` if the Lease must be read before the next decision.
    pub fn is_unknown(&self) -> bool {
        matches!(self.seen, Seen::Unknown)
    }

    /// Marks the Lease as changed by another client: it must be read again.
    pub fn conflicted(&mut self) {
        self.seen = Seen::Unknown;
    }

    /// Returns `true` if the Lease can be taken or renewed now.
    pub fn is_available(&self, now: Moment) -> bool {
        match &self.seen {
            Seen::Unknown => false,
            Seen::Absent { free_at } => now >= *free_at,
            Seen::Present { record, .. } => !self.is_of_another(record) || self.is_abandoned(now),
        }
    }

    /// Returns `true` if the holder has not renewed the Lease for its whole duration.
    fn is_abandoned(&self, now: Moment) -> bool {
        let Seen::Present { record, at } = &self.seen else {
            return false;
        };
        now.since(*at) >= self.duration_of(record)
    }

    fn is_of_another(&self, record: &LeaseRecord) -> bool {
        !record.is_released() && record.holder != self.identity
    }

    /// Returns the duration of a Lease. One without a duration is not written by client-go: the own
    /// duration applies.
    fn duration_of(&self, record: &LeaseRecord) -> Duration {
        if record.duration.is_zero() {
            self.timing.lease_duration
        } else {
            record.duration
        }
    }

    /// Returns `true` if another replica holds the Lease, as far as this one has seen.
    pub fn is_held_by_another(&self, now: Moment) -> bool {
        matches!(self.seen, Seen::Present { .. }) && !self.is_available(now)
    }

    /// Returns the write that takes or renews the Lease; `None` if another replica holds it.
    pub fn intent(&self, now: Moment) -> Option<Intent> {
        if !self.is_available(now) {
            return None;
        }
        match &self.seen {
            Seen::Unknown => None,
            Seen::Absent { .. } => Some(Intent::Create),
            Seen::Present { record, .. } => Some(Intent::Update {
                version: record.version.clone(),
            }),
        }
    }

    /// Returns the fields of the spec for [`intent`](Self::intent). The request counts as an attempt
    /// even if no response arrives.
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

    /// Returns the last known record.
    pub fn record(&self) -> Option<&LeaseRecord> {
        match &self.seen {
            Seen::Present { record, .. } => Some(record),
            Seen::Unknown | Seen::Absent { .. } => None,
        }
    }

    /// Notes that the server has accepted a claim whose request began at this moment.
    pub fn accepted(&mut self, record: LeaseRecord, began: Moment) {
        self.standing = Standing::Leader { renewed: began };
        self.seen = Seen::Present { record, at: began };
    }

    /// Notes that the server has accepted the release.
    pub fn resigned(&mut self) {
        self.standing = Standing::Follower;
        self.seen = Seen::Unknown;
    }

    /// Steps down if the Lease could not be renewed in time.
    pub fn expire(&mut self, now: Moment) {
        if self.valid_until().is_some_and(|until| until <= now) {
            self.standing = Standing::Follower;
        }
    }

    /// Returns the end of the time in which this replica may act; `None` if it may not. It is counted
    /// from the beginning of the last accepted request, so it ends before other replicas take over.
    pub fn valid_until(&self) -> Option<Moment> {
        match self.standing {
            Standing::Follower => None,
            Standing::Leader { renewed } => Some(renewed.after(self.timing.renew_deadline)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment::new(Duration::from_secs(seconds))
    }

    fn record(holder: &str, version: &str) -> LeaseRecord {
        LeaseRecord {
            version: version.to_owned(),
            holder: holder.to_owned(),
            duration: Duration::from_secs(15),
            acquired: None,
            renewed: None,
            transitions: 0,
        }
    }

    fn candidate() -> Candidate {
        Candidate::new("me", Timing::default())
    }

    fn leader(began: u64) -> Candidate {
        let mut me = candidate();
        me.observe(None, at(began)).unwrap();
        me.claim(Timestamp::UNIX_EPOCH);
        me.accepted(record("me", "1"), at(began));
        me
    }

    #[test]
    fn deleted_lease_is_free_after_the_duration_of_its_holder() {
        let mut me = candidate();
        me.observe(Some(record("other", "1")), at(0)).unwrap();
        me.observe(None, at(5)).unwrap();
        me.observe(None, at(19)).unwrap();
        assert_eq!(me.intent(at(19)), None);
        assert_eq!(me.intent(at(20)), Some(Intent::Create));
        let mut me = leader(0);
        me.observe(None, at(1)).unwrap();
        assert_eq!(me.intent(at(1)), Some(Intent::Create), "it was its own");
        let mut me = candidate();
        me.observe(Some(record("", "1")), at(0)).unwrap();
        me.observe(None, at(1)).unwrap();
        assert_eq!(me.intent(at(1)), Some(Intent::Create), "it was released");
    }

    #[test]
    fn absent_and_released_leases_are_taken_immediately() {
        let mut me = candidate();
        assert_eq!(me.intent(at(0)), None, "it is not read yet");
        me.observe(None, at(0)).unwrap();
        assert_eq!(me.intent(at(0)), Some(Intent::Create));
        me.observe(Some(record("", "5")), at(1)).unwrap();
        let version = "5".to_owned();
        assert_eq!(me.intent(at(1)), Some(Intent::Update { version }));
    }

    #[test]
    fn held_leases_are_taken_when_they_are_unchanged_for_their_duration() {
        let mut me = candidate();
        me.observe(Some(record("other", "1")), at(100)).unwrap();
        assert_eq!(me.intent(at(114)), None);
        me.observe(Some(record("other", "1")), at(114)).unwrap();
        assert!(me.intent(at(115)).is_some());
        me.observe(Some(record("other", "2")), at(115)).unwrap();
        assert_eq!(me.intent(at(129)), None, "it was renewed");
        assert!(me.is_held_by_another(at(129)));
    }

    #[test]
    fn validity_is_counted_from_the_beginning_of_the_request() {
        let mut me = leader(100);
        assert_eq!(me.valid_until(), Some(at(110)));
        me.expire(at(109));
        assert!(me.valid_until().is_some());
        me.expire(at(110));
        assert_eq!(me.valid_until(), None);
        assert!(me.intent(at(110)).is_some(), "no other replica has it");
    }

    #[test]
    fn leader_that_sees_another_holder_steps_down() {
        let mut me = leader(100);
        me.observe(Some(record("other", "2")), at(101)).unwrap();
        assert_eq!(me.valid_until(), None);
        let mut me = leader(100);
        me.observe(None, at(101)).unwrap();
        assert_eq!(me.valid_until(), None, "the Lease is deleted");
    }

    #[test]
    fn foreign_edit_of_the_own_lease_does_not_end_it() {
        let mut me = leader(100);
        me.conflicted();
        assert!(me.valid_until().is_some());
        me.observe(Some(record("me", "2")), at(101)).unwrap();
        assert_eq!(me.valid_until(), Some(at(110)));
        let version = "2".to_owned();
        assert_eq!(me.intent(at(101)), Some(Intent::Update { version }));
    }

    #[test]
    fn identity_of_another_process_is_an_error() {
        let error = candidate().observe(Some(record("me", "1")), at(0));
        assert!(error.unwrap_err().to_string().contains("\"me\""));
    }

    #[test]
    fn lost_response_to_a_claim_is_not_another_process() {
        let mut me = candidate();
        me.observe(None, at(0)).unwrap();
        me.claim(Timestamp::UNIX_EPOCH);
        me.conflicted();
        me.observe(Some(record("me", "1")), at(1)).unwrap();
        assert_eq!(me.valid_until(), None, "when it began is not known");
        assert!(me.intent(at(1)).is_some());
    }

    #[test]
    fn only_the_holder_releases() {
        let me = leader(0);
        assert_eq!(
            me.release(Timestamp::UNIX_EPOCH).unwrap()["holderIdentity"],
            ""
        );
        let mut me = candidate();
        me.observe(Some(record("other", "1")), at(0)).unwrap();
        assert_eq!(me.release(Timestamp::UNIX_EPOCH), None);
    }
}
