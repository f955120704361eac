//! One replica: the pure rules of the group, and a model of the engine around them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use kopf_core::leading::{Candidate, Intent, LeaseRecord, Timing};
use kopf_core::object::Moment;
use kopf_core::sharding::{Group, Listed, Role};

use super::server::{Server, Write};
use super::world::Mistake;

/// Number of shards; each has one object.
pub(crate) const SHARDS: u32 = 4;

/// Milliseconds between requests for the same Lease.
const RETRY: u64 = 2_000;

/// A Lease of the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lease {
    Member,
    Shard(u32),
}

/// A request for Leases.
pub(crate) struct Request {
    pub(crate) began: u64,
    ask: Ask,
}

enum Ask {
    Read { lease: Lease, name: String },
    Write { lease: Lease, write: Write },
    List,
}

/// The response to a request.
pub(crate) enum Answer {
    Found(Option<LeaseRecord>),
    /// `None` is a conflict.
    Written(Option<LeaseRecord>),
    Listing(Vec<Listed>),
}

impl Request {
    fn new(began: u64, ask: Ask) -> Self {
        Self { began, ask }
    }

    /// Performs the request on the server.
    pub(crate) fn perform(&self, server: &mut Server) -> Answer {
        match &self.ask {
            Ask::Read { name, .. } => Answer::Found(server.lease(name)),
            Ask::Write { write, .. } => Answer::Written(server.write(write)),
            Ask::List => Answer::Listing(server.list()),
        }
    }
}

/// One replica, alive.
pub(crate) struct Replica {
    pub(crate) identity: String,
    pub(crate) group: Group,
    pub(crate) tenures: BTreeMap<u32, Tenure>,
    /// It does nothing until then.
    pub(crate) frozen_until: u64,
    /// Its requests fail until then.
    pub(crate) partitioned_until: u64,
    /// Leases with a request in flight.
    busy: BTreeSet<Lease>,
    /// When the last request for a Lease began.
    begun: BTreeMap<Lease, u64>,
    /// When the last request for a Lease ended.
    finished: BTreeMap<Lease, u64>,
    is_listing: bool,
    /// When the last listing began.
    listed_at: Option<u64>,
    /// Shards that are released, and not handled any more.
    released: BTreeSet<u32>,
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
            busy: BTreeSet::new(),
            begun: BTreeMap::new(),
            finished: BTreeMap::new(),
            is_listing: false,
            listed_at: None,
            released: BTreeSet::new(),
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
        let is_released = self.released.contains(&shard);
        until.is_some_and(|until| self.clock(now) < until && !is_released)
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

    /// Returns the requests that begin now: at most one at a time for each Lease, and one listing.
    pub(crate) fn begin(&mut self, now: u64) -> Vec<Request> {
        let mut requests = Vec::new();
        let is_due = |last: Option<u64>| last.is_none_or(|last| last + RETRY <= now);
        for shard in 0..SHARDS {
            let lease = Lease::Shard(shard);
            let is_held = self.group.valid_until(shard).is_some();
            let is_released = self.released.contains(&shard);
            let is_due = is_due(self.begun.get(&lease).copied());
            if !self.busy.contains(&lease) && (is_released || is_held && is_due) {
                requests.extend(self.claim(lease, now));
            }
        }
        let is_free = !self.busy.contains(&Lease::Member);
        if is_free && is_due(self.begun.get(&Lease::Member).copied()) {
            requests.extend(self.claim(Lease::Member, now));
        }
        let is_member = self.group.is_member(self.clock(now));
        if is_member && !self.is_listing && is_due(self.listed_at) {
            self.is_listing = true;
            self.listed_at = Some(now);
            requests.push(Request::new(now, Ask::List));
        }
        requests
    }

    /// Returns the request that reads, renews, takes or releases a Lease.
    fn claim(&mut self, lease: Lease, now: u64) -> Option<Request> {
        let now_at = self.clock(now);
        let (name, role, candidate) = match lease {
            Lease::Member => (self.member_name(), Role::Member, self.group.member()),
            Lease::Shard(shard) => {
                let candidate = self.group.shard(shard)?;
                (format!("shard-{shard}"), Role::Shard(shard), candidate)
            }
        };
        let is_released = matches!(lease, Lease::Shard(shard) if self.released.contains(&shard));
        let ask = if candidate.is_unknown() {
            Ask::Read { lease, name }
        } else {
            let is_own = candidate.release(Timestamp::UNIX_EPOCH).is_some();
            let intent = candidate.intent(now_at).filter(|_| is_own || !is_released);
            let Some(intent) = intent else {
                if let (true, Lease::Shard(shard)) = (is_released, lease) {
                    self.forget(shard);
                }
                return None;
            };
            candidate.claim(Timestamp::UNIX_EPOCH);
            let holder = if is_released { "" } else { &*self.identity };
            let write = self.write(name, role, intent, holder);
            Ask::Write { lease, write }
        };
        self.begun.insert(lease, now);
        self.busy.insert(lease);
        Some(Request::new(now, ask))
    }

    /// Ends the release of a shard.
    fn forget(&mut self, shard: u32) {
        self.released.remove(&shard);
        self.group.drained(shard);
    }

    /// Processes a response; `None` is a failure, after which the effect is unknown.
    pub(crate) fn answered(
        &mut self,
        request: &Request,
        answer: Option<Answer>,
        server: &mut Server,
        now: u64,
    ) -> Vec<Request> {
        let mut more = Vec::new();
        match &request.ask {
            Ask::List => {
                self.is_listing = false;
                if let Some(Answer::Listing(listing)) = answer {
                    more = self.observe(listing, request.began, server, now);
                }
            }
            Ask::Read { lease, .. } => {
                self.finish(*lease, now);
                let now_at = self.clock(now);
                if let Some(Answer::Found(found)) = answer {
                    self.candidate(*lease).observe(found, now_at).unwrap();
                    // It is written next.
                    self.begun.remove(lease);
                }
            }
            Ask::Write { lease, write } => {
                self.finish(*lease, now);
                let began_at = self.clock(request.began);
                match (answer, lease) {
                    (Some(Answer::Written(Some(_))), Lease::Shard(shard))
                        if write.holder.is_empty() =>
                    {
                        self.forget(*shard);
                    }
                    (Some(Answer::Written(Some(record))), _) => {
                        self.candidate(*lease).accepted(record, began_at);
                    }
                    _ => {
                        self.candidate(*lease).conflicted();
                        self.begun.remove(lease);
                    }
                }
            }
        }
        self.settle(now);
        more
    }

    fn candidate(&mut self, lease: Lease) -> &mut Candidate {
        match lease {
            Lease::Member => self.group.member(),
            Lease::Shard(shard) => self.group.shard(shard).unwrap(),
        }
    }

    fn finish(&mut self, lease: Lease, now: u64) {
        self.busy.remove(&lease);
        self.finished.insert(lease, now);
    }

    /// Processes a listing. Returns the requests that take shards.
    fn observe(
        &mut self,
        mut listing: Vec<Listed>,
        began: u64,
        server: &mut Server,
        now: u64,
    ) -> Vec<Request> {
        let now_at = self.clock(now);
        let outdated = (0..SHARDS).filter(|shard| {
            let lease = Lease::Shard(*shard);
            let finished = self.finished.get(&lease);
            self.busy.contains(&lease) || finished.is_some_and(|finished| *finished >= began)
        });
        let outdated: BTreeSet<u32> = outdated.collect();
        let holders = listing
            .iter()
            .map(|lease| (lease.name.clone(), lease.record.holder.clone()));
        self.listed = holders.collect();
        let own = self.member_name();
        listing.retain(|lease| lease.name != own);
        self.group.observe(listing, &outdated, now_at).unwrap();
        self.settle(now);
        let plan = self.group.plan(now_at);
        for shard in plan.release {
            self.group.drain(shard);
            if let Some(tenure) = self.tenures.get_mut(&shard) {
                tenure.draining = true;
            }
        }
        for (name, version) in plan.forget {
            server.delete(&name, &version);
        }
        let is_idle = |shard: &u32| !self.busy.contains(&Lease::Shard(*shard));
        let takes: Vec<u32> = plan.take.into_iter().filter(is_idle).collect();
        let takes = takes.into_iter();
        takes
            .filter_map(|shard| self.claim(Lease::Shard(shard), now))
            .collect()
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
        for shard in (0..SHARDS).filter(|shard| !self.released.contains(shard)) {
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

    /// Begins to release the shards whose handlers have ended.
    pub(crate) fn release_drained(&mut self) {
        let hasty = self.mistake == Mistake::ReleasesBeforeHandlersEnd;
        let drained = self
            .tenures
            .iter()
            .filter(|(_, tenure)| tenure.draining && (hasty || tenure.call == Call::None))
            .map(|(shard, _)| *shard);
        let drained: BTreeSet<u32> = drained.collect();
        for shard in &drained {
            if !hasty {
                self.tenures.remove(shard);
            }
        }
        self.released.extend(drained);
    }
}
