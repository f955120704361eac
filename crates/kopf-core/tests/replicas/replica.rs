//! One replica: the pure rules of the group, and a model of the engine around them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kopf_core::leading::{Intent, Timing};
use kopf_core::object::Moment;
use kopf_core::sharding::{Group, Role};

use super::server::{Server, Write};
use super::world::Mistake;

/// Number of shards; each has one object.
pub(crate) const SHARDS: u32 = 4;

/// One replica, alive.
pub(crate) struct Replica {
    pub(crate) identity: String,
    pub(crate) group: Group,
    pub(crate) tenures: BTreeMap<u32, Tenure>,
    /// It does nothing until then.
    pub(crate) frozen_until: u64,
    /// Its requests fail until then.
    pub(crate) partitioned_until: u64,
    pub(crate) next_round: u64,
    /// The holders of all Leases in the last listing.
    pub(crate) listed: BTreeMap<String, String>,
    timing: Timing,
    born: u64,
    mistake: Mistake,
}

/// The holding of one shard.
pub(crate) struct Tenure {
    /// When its object is listed; it is not handled before.
    pub(crate) listed_at: u64,
    pub(crate) call: Call,
    pub(crate) draining: bool,
}

/// The handler of the object of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    None,
    Running {
        change: u64,
        until: u64,
    },
    /// The result is sent, and the response is pending.
    Written,
}

impl Replica {
    pub(crate) fn new(number: u64, now: u64, mistake: Mistake) -> Self {
        let identity = format!("replica-{number:04}");
        let mut timing = Timing::default();
        if mistake == Mistake::TrustsTheLeaseDuration {
            // It acts for longer than the others wait.
            timing.renew_deadline = timing.lease_duration * 2;
        }
        Self {
            group: Group::new(identity.clone(), timing, SHARDS),
            identity,
            tenures: BTreeMap::new(),
            frozen_until: 0,
            partitioned_until: 0,
            next_round: now,
            listed: BTreeMap::new(),
            timing,
            born: now,
            mistake,
        }
    }

    /// Returns the monotonic clock of this process.
    pub(crate) fn clock(&self, now: u64) -> Moment {
        Moment::new(Duration::from_millis(now.saturating_sub(self.born)))
    }

    /// Returns `true` if the shard may be handled by the own clock.
    pub(crate) fn is_valid(&self, shard: u32, now: u64) -> bool {
        let until = self.group.valid_until(shard);
        until.is_some_and(|until| self.clock(now) < until)
    }

    /// Returns `true` if the shard was not renewed in time, and no other holder was seen yet: nothing
    /// begins, and running handlers wait with their results.
    pub(crate) fn is_overdue(&self, shard: u32, now: u64) -> bool {
        let until = self.group.valid_until(shard);
        until.is_some_and(|until| self.clock(now) >= until)
    }

    fn write(&self, name: String, role: Role, intent: Intent, holder: &str) -> Write {
        Write {
            name,
            role,
            shards: SHARDS,
            intent,
            holder: holder.to_owned(),
            seconds: self.timing.lease_duration.as_secs(),
        }
    }

    pub(crate) fn member_name(&self) -> String {
        format!("member-{}", self.identity)
    }

    /// Runs one round: member Lease, listing, shards. The requests begin at `began` and take effect
    /// now: this process may have been frozen in between.
    pub(crate) fn round(&mut self, server: &mut Server, began: u64, now: u64) {
        let (began_at, now_at) = (self.clock(began), self.clock(now));
        let (name, identity) = (self.member_name(), self.identity.clone());
        let found = server.lease(&name);
        self.group.member().observe(found, now_at).unwrap();
        if let Some(intent) = self.group.member().intent(now_at) {
            self.group.member().claim(Timestamp::UNIX_EPOCH);
            let write = self.write(name.clone(), Role::Member, intent, &identity);
            if let Some(record) = server.write(&write) {
                self.group.member().accepted(record, began_at);
            }
        }
        let mut listing = server.list();
        let holders = listing
            .iter()
            .map(|lease| (lease.name.clone(), lease.record.holder.clone()));
        self.listed = holders.collect();
        listing.retain(|lease| lease.name != name);
        self.group.observe(listing, now_at).unwrap();
        self.settle(now);
        let plan = self.group.plan(now_at);
        for shard in plan.renew.into_iter().chain(plan.take) {
            self.claim(server, shard, began, now);
        }
        for shard in plan.release {
            self.group.drain(shard);
            if let Some(tenure) = self.tenures.get_mut(&shard) {
                tenure.draining = true;
            }
        }
        for (name, version) in plan.forget {
            server.delete(&name, &version);
        }
        self.settle(now);
    }

    fn claim(&mut self, server: &mut Server, shard: u32, began: u64, now: u64) {
        let (began_at, now_at) = (self.clock(began), self.clock(now));
        let identity = self.identity.clone();
        let Some(candidate) = self.group.shard(shard) else {
            return;
        };
        let Some(intent) = candidate.intent(now_at) else {
            return;
        };
        candidate.claim(Timestamp::UNIX_EPOCH);
        let name = format!("shard-{shard}");
        let write = self.write(name, Role::Shard(shard), intent, &identity);
        let written = server.write(&write);
        let Some(candidate) = self.group.shard(shard) else {
            return;
        };
        match written {
            Some(record) => candidate.accepted(record, began_at),
            None => candidate.conflicted(),
        }
    }

    /// Ends shards that other replicas hold, and begins those that this one holds.
    pub(crate) fn settle(&mut self, now: u64) {
        let (group, mistake) = (&self.group, self.mistake);
        self.tenures.retain(|shard, tenure| {
            let is_running = matches!(tenure.call, Call::Running { .. });
            let is_kept = matches!(
                mistake,
                Mistake::WritesWithoutChecking | Mistake::ReleasesBeforeHandlersEnd
            );
            is_kept && is_running || group.valid_until(*shard).is_some()
        });
        for shard in 0..SHARDS {
            if self.group.valid_until(shard).is_some() {
                let is_listed = self.mistake == Mistake::HandlesBeforeListing;
                let listed_at = if is_listed { 0 } else { now + 200 };
                self.tenures.entry(shard).or_insert(Tenure {
                    listed_at,
                    call: Call::None,
                    draining: false,
                });
            }
        }
    }

    /// Releases the shards whose handlers have ended.
    pub(crate) fn release_drained(&mut self, server: &mut Server, now: u64) {
        let hasty = self.mistake == Mistake::ReleasesBeforeHandlersEnd;
        let drained: BTreeSet<u32> = self
            .tenures
            .iter()
            .filter(|(_, tenure)| tenure.draining && (hasty || tenure.call == Call::None))
            .map(|(shard, _)| *shard)
            .collect();
        for shard in drained {
            let now_at = self.clock(now);
            let Some(candidate) = self.group.shard(shard) else {
                continue;
            };
            let released = candidate.release(Timestamp::UNIX_EPOCH);
            if let (Some(_), Some(intent)) = (released, candidate.intent(now_at)) {
                let name = format!("shard-{shard}");
                let write = self.write(name, Role::Shard(shard), intent, "");
                server.write(&write);
            }
            if !hasty {
                self.tenures.remove(&shard);
            }
            self.group.drained(shard);
        }
    }
}
