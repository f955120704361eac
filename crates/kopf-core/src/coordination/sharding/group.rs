//! One replica in its group: which shards it takes, renews and releases.

use std::collections::{BTreeMap, BTreeSet};

use crate::leading::{Candidate, DuplicateIdentity, LeaseRecord, Sighting, Timing};
use crate::moment::Moment;

/// The view of one replica on its group.
///
/// In every round, the engine renews the member Lease, lists all Leases of the group, and performs the
/// [`Plan`]. The order matters: of two replicas with different numbers of shards, at least one sees the
/// other before it takes anything.
#[derive(Clone, Debug)]
pub struct Group {
    identity: String,
    member: Candidate,
    shards: Vec<Candidate>,
    draining: BTreeSet<u32>,
    others: BTreeMap<String, Member>,
    /// Leases of shards of another number, which no replica of this group uses.
    strays: BTreeMap<String, Sighting>,
    timing: Timing,
}

/// Another replica.
#[derive(Clone, Debug)]
struct Member {
    lease: Sighting,
    shards: u32,
}

/// A Lease of the group, as listed.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The name of the object.
    pub name: String,
    /// The purpose of the Lease.
    pub role: Role,
    /// The number of shards by which it divides the objects.
    pub shards: u32,
    /// The content.
    pub record: LeaseRecord,
}

/// The purpose of a Lease of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It shows that a replica is alive.
    Member,
    /// Its holder handles the objects of this shard.
    Shard(u32),
}

/// The writes of one round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Held shards, those that are being released included.
    pub renew: Vec<u32>,
    /// Free shards that this replica takes.
    pub take: Vec<u32>,
    /// Held shards that other replicas should get: they are released when their handlers have ended.
    pub release: Vec<u32>,
    /// Leases that no process renews any longer, with their versions: those of members, and those of
    /// shards of another number.
    pub forget: Vec<(String, String)>,
    /// Live replicas that divide the objects by another number of shards. Nothing is taken meanwhile.
    pub mismatched: Vec<String>,
}

impl Group {
    /// Returns a group of this replica alone, without any shards.
    pub fn new(identity: impl Into<String>, timing: Timing, count: u32) -> Self {
        let identity = identity.into();
        let candidate = Candidate::new(identity.clone(), timing);
        Self {
            member: candidate.clone(),
            shards: vec![candidate; count as usize],
            draining: BTreeSet::new(),
            others: BTreeMap::new(),
            strays: BTreeMap::new(),
            identity,
            timing,
        }
    }

    /// Returns the number of shards.
    pub fn count(&self) -> u32 {
        u32::try_from(self.shards.len()).unwrap_or(u32::MAX)
    }

    /// Returns the state of the own member Lease.
    pub fn member(&mut self) -> &mut Candidate {
        &mut self.member
    }

    /// Returns the state of the Lease of a shard.
    pub fn shard(&mut self, shard: u32) -> Option<&mut Candidate> {
        self.shards.get_mut(shard as usize)
    }

    /// Returns the end of the validity of a shard; `None` if it is not held.
    pub fn valid_until(&self, shard: u32) -> Option<Moment> {
        self.shards.get(shard as usize)?.valid_until()
    }

    /// Notes a complete listing of the group's Leases, without the own member Lease. The listed Leases of
    /// `outdated` shards are ignored: this replica has written them since the listing began.
    ///
    /// # Errors
    ///
    /// Another process uses the same identity.
    pub fn observe(
        &mut self,
        listing: Vec<Listed>,
        outdated: &BTreeSet<u32>,
        now: Moment,
    ) -> Result<(), DuplicateIdentity> {
        let mut members = std::mem::take(&mut self.others);
        let mut strays = std::mem::take(&mut self.strays);
        let count = self.count();
        let is_current = |shard: &u32| !outdated.contains(shard);
        let mut absent: BTreeSet<u32> = (0..count).filter(is_current).collect();
        for lease in listing {
            match lease.role {
                Role::Member => {
                    let known = members.remove(&lease.name).map(|known| known.lease);
                    let member = Member {
                        lease: seen(known, lease.record, now),
                        shards: lease.shards,
                    };
                    self.others.insert(lease.name, member);
                }
                Role::Shard(shard) if lease.shards == count => {
                    if absent.remove(&shard)
                        && let Some(candidate) = self.shards.get_mut(shard as usize)
                    {
                        candidate.observe(Some(lease.record), now)?;
                    }
                }
                Role::Shard(_) => {
                    let known = strays.remove(&lease.name);
                    self.strays
                        .insert(lease.name, seen(known, lease.record, now));
                }
            }
        }
        for shard in absent {
            if let Some(candidate) = self.shard(shard) {
                candidate.observe(None, now)?;
            }
        }
        self.forget_lost();
        Ok(())
    }

    /// Forgets the releases of shards that are lost.
    fn forget_lost(&mut self) {
        let shards = &self.shards;
        self.draining.retain(|shard| {
            let candidate = shards.get(*shard as usize);
            candidate.is_some_and(|candidate| candidate.valid_until().is_some())
        });
    }

    /// Notes that a shard is being released: it is renewed until its handlers have ended.
    pub fn drain(&mut self, shard: u32) {
        self.draining.insert(shard);
    }

    /// Notes that a shard was released, or is lost.
    pub fn drained(&mut self, shard: u32) {
        self.draining.remove(&shard);
        if let Some(candidate) = self.shard(shard) {
            candidate.resigned();
        }
    }

    /// Returns the identities of the other live replicas, with any number of shards.
    pub fn others(&self, now: Moment) -> impl Iterator<Item = &str> {
        let others = self.others.values();
        others
            .filter(move |member| member.is_live(now, &self.timing))
            .map(|member| member.lease.record().holder.as_str())
            .filter(|holder| *holder != self.identity)
    }

    /// Returns the identities of the live replicas with the same number of shards, in order.
    fn live(&self, now: Moment) -> Vec<&str> {
        let mut live: Vec<&str> = self
            .others
            .values()
            .filter(|member| member.is_live(now, &self.timing) && member.shards == self.count())
            .map(|member| member.lease.record().holder.as_str())
            .collect();
        live.push(&self.identity);
        live.sort_unstable();
        live.dedup();
        live
    }

    /// Decides the next writes. Nothing is taken while the others may not count this replica, because its
    /// member Lease was not renewed for its duration.
    pub fn plan(&self, now: Moment) -> Plan {
        let live = self.live(now);
        let replicas = u32::try_from(live.len()).unwrap_or(u32::MAX);
        let rank = live.iter().position(|one| *one == self.identity);
        let rank = u32::try_from(rank.unwrap_or_default()).unwrap_or(u32::MAX);
        let count = self.count();
        let quota = count / replicas + u32::from(rank < count % replicas);
        let mut plan = Plan {
            mismatched: self.mismatched(now),
            // Only the first replica cleans up.
            forget: if rank == 0 {
                self.abandoned(now)
            } else {
                Vec::new()
            },
            ..Plan::default()
        };
        let mut kept = 0;
        for shard in 0..count {
            if self.valid_until(shard).is_none() {
                continue;
            }
            plan.renew.push(shard);
            if self.draining.contains(&shard) {
                continue;
            }
            if kept < quota {
                kept += 1;
            } else {
                plan.release.push(shard);
            }
        }
        if self.is_member(now) && plan.mismatched.is_empty() {
            plan.take = self.free(now, rank * (count / replicas), quota.saturating_sub(kept));
        }
        plan
    }

    /// Returns `true` if the other replicas count this one.
    pub fn is_member(&self, now: Moment) -> bool {
        let Timing {
            lease_duration,
            renew_deadline,
            ..
        } = self.timing;
        let margin = lease_duration.saturating_sub(renew_deadline);
        let until = self.member.valid_until();
        until.is_some_and(|until| now < until.after(margin))
    }

    /// Returns up to `limit` shards that can be taken. Replicas begin at different places, so that they
    /// seldom compete for the same one.
    fn free(&self, now: Moment, first: u32, limit: u32) -> Vec<u32> {
        let count = self.count();
        let order = (0..count).map(|step| (first + step) % count.max(1));
        let is_free = |shard: &u32| {
            let candidate = self.shards.get(*shard as usize);
            candidate.is_some_and(|one| one.valid_until().is_none() && one.is_available(now))
        };
        order.filter(is_free).take(limit as usize).collect()
    }

    fn mismatched(&self, now: Moment) -> Vec<String> {
        let others = self.others.values();
        others
            .filter(|member| member.is_live(now, &self.timing) && member.shards != self.count())
            .map(|member| member.lease.record().holder.clone())
            .collect()
    }

    /// Returns the names and versions of the Leases that no process renews any longer: those of members
    /// and, if there are no replicas with another number of shards, those of their shards.
    pub fn abandoned(&self, now: Moment) -> Vec<(String, String)> {
        let members = self.others.iter();
        let gone = members.filter(|(_, member)| !member.is_live(now, &self.timing));
        let gone = gone.map(|(name, member)| (name, &member.lease));
        let is_alone = self.mismatched(now).is_empty();
        let strays = self.strays.iter().filter(|(_, lease)| {
            let is_over = lease.expires_at(self.timing.lease_duration) <= now;
            is_alone && (lease.record().is_released() || is_over)
        });
        gone.chain(strays)
            .map(|(name, lease)| (name.clone(), lease.record().version.clone()))
            .collect()
    }
}

/// Returns the sighting of a Lease after this version.
fn seen(known: Option<Sighting>, record: LeaseRecord, now: Moment) -> Sighting {
    match known {
        Some(mut known) => {
            known.update(record, now);
            known
        }
        None => Sighting::new(record, now),
    }
}

impl Member {
    fn is_live(&self, now: Moment, timing: &Timing) -> bool {
        let least = timing.lease_duration;
        !self.lease.record().is_released() && now < self.lease.expires_at(least)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use jiff::Timestamp;

    use super::*;

    const NONE: BTreeSet<u32> = BTreeSet::new();

    fn at(seconds: u64) -> Moment {
        Moment::new(Duration::from_secs(seconds))
    }

    fn record(holder: &str, version: u64) -> LeaseRecord {
        LeaseRecord {
            version: version.to_string(),
            holder: holder.to_owned(),
            duration: Duration::from_secs(15),
            acquired: None,
            renewed: None,
            transitions: 0,
        }
    }

    fn member(holder: &str, shards: u32) -> Listed {
        Listed {
            name: format!("member-{holder}"),
            role: Role::Member,
            shards,
            record: record(holder, 1),
        }
    }

    fn shard(number: u32, holder: &str) -> Listed {
        Listed {
            name: format!("shard-{number}"),
            role: Role::Shard(number),
            shards: 4,
            record: record(holder, 1),
        }
    }

    fn joined(identity: &str) -> Group {
        let mut group = Group::new(identity, Timing::default(), 4);
        group.member().claim(Timestamp::UNIX_EPOCH);
        group.member().accepted(record(identity, 1), at(0));
        group
    }

    fn holding(identity: &str, shards: &[u32]) -> Group {
        let mut group = joined(identity);
        group.observe(Vec::new(), &NONE, at(0)).unwrap();
        for number in shards {
            let one = group.shard(*number).unwrap();
            one.claim(Timestamp::UNIX_EPOCH);
            one.accepted(record(identity, 1), at(0));
        }
        group
    }

    #[test]
    fn single_replica_takes_all_shards() {
        let mut group = joined("a");
        group.observe(Vec::new(), &NONE, at(0)).unwrap();
        assert_eq!(group.plan(at(0)).take, [0, 1, 2, 3]);
    }

    #[test]
    fn nothing_is_taken_without_a_valid_member_lease() {
        let mut group = Group::new("a", Timing::default(), 4);
        group.observe(Vec::new(), &NONE, at(0)).unwrap();
        assert!(group.plan(at(0)).take.is_empty());
        let mut group = joined("a");
        group.observe(Vec::new(), &NONE, at(15)).unwrap();
        assert!(group.plan(at(15)).take.is_empty(), "it is not renewed");
    }

    #[test]
    fn shards_beyond_the_quota_are_released_to_a_new_replica() {
        let mut group = holding("a", &[0, 1, 2, 3]);
        let own = (0..4).map(|number| shard(number, "a"));
        let listing: Vec<_> = own.chain([member("b", 4)]).collect();
        group.observe(listing, &NONE, at(1)).unwrap();
        let plan = group.plan(at(1));
        assert_eq!(plan.release, [2, 3]);
        assert_eq!(plan.renew, [0, 1, 2, 3], "until their handlers have ended");
        group.drain(2);
        group.drain(3);
        assert!(
            group.plan(at(1)).release.is_empty(),
            "they are being released"
        );
    }

    #[test]
    fn held_shards_are_taken_only_when_they_are_abandoned() {
        let mut group = joined("b");
        let listing = || {
            vec![
                member("a", 4),
                shard(0, "a"),
                shard(1, "a"),
                shard(2, ""),
                shard(3, "a"),
            ]
        };
        group.observe(listing(), &NONE, at(0)).unwrap();
        assert_eq!(group.plan(at(0)).take, [2]);
        group.member().accepted(record("b", 2), at(15));
        group.observe(listing(), &NONE, at(15)).unwrap();
        assert_eq!(
            group.plan(at(15)).take,
            [0, 1, 2, 3],
            "the other one is dead"
        );
        let dead = ("member-a".to_owned(), "1".to_owned());
        assert_eq!(group.plan(at(15)).forget, [dead]);
    }

    #[test]
    fn replicas_with_another_number_of_shards_block_taking() {
        let mut group = joined("a");
        group.observe(vec![member("b", 8)], &NONE, at(0)).unwrap();
        let plan = group.plan(at(0));
        assert_eq!(plan.mismatched, ["b"]);
        assert!(plan.take.is_empty());
        group.member().accepted(record("a", 2), at(15));
        group.observe(vec![member("b", 8)], &NONE, at(15)).unwrap();
        assert_eq!(group.plan(at(15)).take, [0, 1, 2, 3]);
    }

    #[test]
    fn overdue_shards_are_renewed_until_another_replica_has_them() {
        let mut group = holding("a", &[1, 2]);
        group.drain(2);
        assert_eq!(group.plan(at(60)).renew, [1, 2]);
        let listing = vec![shard(1, "b"), shard(2, "b")];
        group.observe(listing, &NONE, at(61)).unwrap();
        assert_eq!(group.valid_until(1), None);
        assert!(group.plan(at(61)).renew.is_empty());
        assert!(group.draining.is_empty());
    }

    #[test]
    fn leases_of_unused_shards_are_removed() {
        let mut group = holding("a", &[]);
        let stray = |holder: &str| Listed {
            shards: 8,
            name: "shard-1-of-8".to_owned(),
            ..shard(1, holder)
        };
        group.observe(vec![stray("")], &NONE, at(1)).unwrap();
        let unused = ("shard-1-of-8".to_owned(), "1".to_owned());
        assert_eq!(
            group.plan(at(1)).forget,
            std::slice::from_ref(&unused),
            "it is released"
        );
        group.observe(vec![stray("dead")], &NONE, at(2)).unwrap();
        assert_eq!(group.plan(at(16)).forget, []);
        assert_eq!(group.plan(at(17)).forget, [unused], "its holder is dead");
        let alive = vec![stray(""), member("b", 8)];
        group.observe(alive, &NONE, at(20)).unwrap();
        assert_eq!(group.plan(at(20)).forget, [], "another replica uses it");
    }

    #[test]
    fn edited_leases_of_dead_members_expire() {
        let mut group = joined("a");
        group.observe(vec![member("b", 4)], &NONE, at(0)).unwrap();
        let mut edited = member("b", 4);
        edited.record.duration = Duration::from_secs(3_600);
        group.observe(vec![edited], &NONE, at(1)).unwrap();
        assert_eq!(group.others(at(14)).collect::<Vec<_>>(), ["b"]);
        assert_eq!(group.others(at(15)).count(), 0);
    }
}
