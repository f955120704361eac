//! The requests of a replica that handles some shards: at most one at a time for each Lease.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::FuturesUnordered;
use kopf_core::leading::{Candidate, Timing};
use kopf_core::sharding::{self, Group, Listed, Plan, Role};
use serde_json::Value;
use tokio::time::Instant;

use super::claiming::{self, Failure, Holders};
use super::keeper::Time;
use super::leases::{Lease, Leases};
use super::listing::{GROUP, ROLE, SHARD, SHARDS, listed, selector};
use super::members::Members;

/// The requests of a replica that handles some shards, and their results.
pub(super) struct Share {
    pub(super) group: Group,
    pub(super) requests: FuturesUnordered<BoxFuture<'static, Response>>,
    /// Leases of former replicas are being deleted.
    pub(super) is_forgetting: bool,
    leases: Arc<Leases>,
    selector: String,
    member: Slot,
    shards: Vec<Slot>,
    /// When the last listing began.
    listed_at: Option<Instant>,
    is_listing: bool,
    is_leaving: bool,
    /// The requests whose last attempt has failed.
    failing: BTreeSet<Source>,
    members: Members,
    timing: Timing,
    time: Time,
}

/// One Lease.
struct Slot {
    lease: Lease,
    /// When the last request began.
    began: Option<Instant>,
    activity: Activity,
    /// The Lease is not renewed any more, but released.
    is_to_release: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    /// No request is in flight since this time. Listings that began before may be outdated.
    Idle {
        since: Instant,
    },
    Busy(Action),
}

/// A request for one Lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Renew,
    Take,
    Release,
}

/// The kinds of requests that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Member,
    Shard(u32),
    Listing,
}

/// A finished request.
pub(super) enum Response {
    Member(Exchange),
    Shard(u32, Exchange),
    Listing(Listing),
    Forgotten,
}

/// The state of a Lease after a request.
pub(super) struct Exchange {
    lease: Lease,
    candidate: Candidate,
    pub(super) action: Action,
    result: Result<(), Failure>,
}

/// The Leases of the group.
pub(super) struct Listing {
    began: Instant,
    result: Result<Vec<Value>, kopf_client::Error>,
}

impl Share {
    pub(super) fn new(
        leases: Leases,
        name: &str,
        identity: &str,
        count: u32,
        timing: Timing,
        time: Time,
        members: Members,
    ) -> Self {
        let labels = |role: &str, shard: Option<u32>| {
            let mut labels = BTreeMap::from([
                (GROUP, name.to_owned()),
                (ROLE, role.to_owned()),
                (SHARDS, count.to_string()),
            ]);
            labels.extend(shard.map(|shard| (SHARD, shard.to_string())));
            labels
        };
        let member = format!("{name}-member-{:016x}", sharding::hash(identity.as_bytes()));
        let shard = |shard: u32| {
            let name = format!("{name}-shard-{shard}-of-{count}");
            Slot::new(Lease::new(name).with_labels(&labels("shard", Some(shard))))
        };
        Self {
            group: Group::new(identity, timing, count),
            requests: FuturesUnordered::new(),
            is_forgetting: false,
            leases: Arc::new(leases),
            selector: selector(name),
            member: Slot::new(Lease::new(member).with_labels(&labels("member", None))),
            shards: (0..count).map(shard).collect(),
            listed_at: None,
            is_listing: false,
            is_leaving: false,
            failing: BTreeSet::new(),
            members,
            timing,
            time,
        }
    }

    /// Begins all requests that are due. Returns the time of the next ones.
    pub(super) fn begin(&mut self) -> Instant {
        let now = Instant::now();
        let mut next = now + self.timing.retry_period;
        for shard in 0..self.group.count() {
            let is_held = self.group.valid_until(shard).is_some();
            let Some(slot) = self.shards.get(shard as usize) else {
                continue;
            };
            if slot.is_to_release && slot.is_idle() {
                self.request(shard, Action::Release);
            } else if is_held && let Some(at) = slot.due_at(self.timing) {
                if at <= now {
                    self.request(shard, Action::Renew);
                } else {
                    next = next.min(at);
                }
            }
        }
        match self.member.due_at(self.timing) {
            Some(at) if at <= now => self.renew_member(),
            Some(at) => next = next.min(at),
            None => {}
        }
        match self.listing_due_at(now) {
            Some(at) if at <= now => self.list(now),
            Some(at) => next = next.min(at),
            None => {}
        }
        next
    }

    /// Returns the time of the next listing; `None` if it waits for a response. The member Lease must
    /// exist before the listing that precedes the acquisition of a shard: of two replicas with different
    /// numbers of shards, at least one sees the other.
    fn listing_due_at(&self, now: Instant) -> Option<Instant> {
        let is_member = self.group.is_member(self.time.now());
        if self.is_listing || self.is_leaving || !is_member {
            return None;
        }
        Some(
            self.listed_at
                .map_or(now, |at| at + self.timing.retry_period),
        )
    }

    fn list(&mut self, began: Instant) {
        self.listed_at = Some(began);
        self.is_listing = true;
        let (leases, selector) = (Arc::clone(&self.leases), self.selector.clone());
        let request = async move {
            let result = leases.list(&selector).await;
            Response::Listing(Listing { began, result })
        };
        self.requests.push(request.boxed());
    }

    /// Lists the group as soon as possible.
    pub(super) fn list_soon(&mut self) {
        self.listed_at = None;
    }

    fn renew_member(&mut self) {
        let candidate = self.group.member().clone();
        let request = self.member.request(Action::Renew, candidate, Holders::Own);
        let request = request.send(Arc::clone(&self.leases), self.time);
        self.requests.push(request.map(Response::Member).boxed());
    }

    fn request(&mut self, shard: u32, action: Action) {
        let slot = self.shards.get_mut(shard as usize);
        if let (Some(candidate), Some(slot)) = (self.group.shard(shard), slot) {
            let request = slot.request(action, candidate.clone(), Holders::Any);
            let request = request.send(Arc::clone(&self.leases), self.time);
            let request = request.map(move |done| Response::Shard(shard, done));
            self.requests.push(request.boxed());
        }
    }

    /// Begins to take the free shards of a plan, and to delete the Leases of former replicas.
    pub(super) fn take(&mut self, plan: &Plan) {
        if !self.is_leaving && !self.is_taking() {
            for shard in plan.take.iter().copied() {
                self.request(shard, Action::Take);
            }
        }
        if !plan.forget.is_empty() && !self.is_forgetting {
            self.is_forgetting = true;
            let (leases, forgotten) = (Arc::clone(&self.leases), plan.forget.clone());
            let request = async move {
                leases.forget(forgotten).await;
                Response::Forgotten
            };
            self.requests.push(request.boxed());
        }
    }

    /// Begins to release a shard, after the request in flight.
    pub(super) fn release(&mut self, shard: u32) {
        if let Some(slot) = self.shards.get_mut(shard as usize) {
            slot.is_to_release = true;
        }
    }

    /// Returns `true` from [`release`](Self::release) until its response.
    pub(super) fn is_releasing(&self, shard: u32) -> bool {
        let slot = self.shards.get(shard as usize);
        slot.is_some_and(|slot| slot.is_to_release)
    }

    /// Returns `true` if shards are being taken.
    pub(super) fn is_taking(&self) -> bool {
        let mut shards = self.shards.iter();
        shards.any(|slot| slot.activity == Activity::Busy(Action::Take))
    }

    /// Returns `true` if any request for a shard is in flight or waits.
    pub(super) fn is_any_shard_busy(&self) -> bool {
        let mut shards = self.shards.iter();
        shards.any(|slot| slot.is_to_release || !slot.is_idle())
    }

    /// Stops listing the group and taking shards.
    pub(super) fn begin_leaving(&mut self) {
        self.is_leaving = true;
    }

    /// Notes the response to a renewal of the member Lease.
    pub(super) fn member_renewed(&mut self, exchange: Exchange) -> Result<(), Failure> {
        self.member.finish(exchange.lease);
        *self.group.member() = exchange.candidate;
        self.note(Source::Member, exchange.result)
    }

    /// Notes the response to a request for a shard.
    pub(super) fn shard_written(&mut self, shard: u32, exchange: Exchange) -> Result<(), Failure> {
        let slot = self.shards.get_mut(shard as usize);
        if let (Some(candidate), Some(slot)) = (self.group.shard(shard), slot) {
            slot.finish(exchange.lease);
            *candidate = exchange.candidate;
            if exchange.action == Action::Release {
                slot.is_to_release = false;
                self.group.drained(shard);
            }
        }
        self.note(Source::Shard(shard), exchange.result)
    }

    /// Processes a listing. Returns the resulting plan.
    pub(super) fn listed(&mut self, listing: Listing) -> Result<Plan, Failure> {
        self.is_listing = false;
        let items = match listing.result {
            Ok(items) => items,
            Err(error) => {
                self.failing.insert(Source::Listing);
                return Err(error.into());
            }
        };
        self.failing.remove(&Source::Listing);
        let outdated = (0..).zip(&self.shards);
        let outdated = outdated.filter(|(_, slot)| !slot.is_unchanged_since(listing.began));
        let outdated: BTreeSet<u32> = outdated.map(|(shard, _)| shard).collect();
        let now = self.time.now();
        let listing = self.classify(items, &outdated);
        self.group.observe(listing, &outdated, now)?;
        self.members.publish(self.group.others(now));
        Ok(self.group.plan(now))
    }

    /// Classifies the listed Leases of the group, and stores those of shards.
    fn classify(&mut self, items: Vec<Value>, outdated: &BTreeSet<u32>) -> Vec<Listed> {
        let is_current = |shard: u32| !outdated.contains(&shard);
        for (_, slot) in (0..).zip(&mut self.shards).filter(|(n, _)| is_current(*n)) {
            slot.lease.seen(None);
        }
        let count = self.group.count();
        let mut listing = Vec::new();
        for item in items {
            let Some(listed) = listed(&item) else {
                continue;
            };
            match listed.role {
                Role::Member if listed.name == self.member.lease.name => continue,
                Role::Shard(shard) if listed.shards == count && is_current(shard) => {
                    if let Some(slot) = self.shards.get_mut(shard as usize) {
                        slot.lease.seen(Some(item));
                    }
                }
                Role::Member | Role::Shard(_) => {}
            }
            listing.push(listed);
        }
        listing
    }

    fn note(&mut self, source: Source, result: Result<(), Failure>) -> Result<(), Failure> {
        if result.is_ok() {
            self.failing.remove(&source);
        } else {
            self.failing.insert(source);
        }
        result
    }

    /// Returns `true` if the last attempt of any request has failed.
    pub(super) fn is_failing(&self) -> bool {
        !self.failing.is_empty()
    }

    /// Returns the reason why a shard is not held any longer.
    pub(super) fn loss_of(&mut self, shard: u32) -> String {
        let candidate = self.group.shard(shard);
        let candidate = candidate.as_deref();
        match candidate.and_then(|one| one.other_holder()) {
            Some(holder) => format!("its Lease is held by {holder}"),
            None if candidate.is_some_and(|one| one.record().is_some()) => {
                "another client has released its Lease".to_owned()
            }
            None => "its Lease was deleted".to_owned(),
        }
    }

    /// Deletes the member Lease. The last replica also deletes the Leases of the shards, which would
    /// remain forever.
    pub(super) async fn leave(&mut self) {
        let mut unused: Vec<&Slot> = vec![&self.member];
        let is_alone = match self.leases.list(&self.selector).await {
            Ok(items) => {
                let listing = items.iter().filter_map(listed);
                let listing = listing.filter(|lease| lease.name != self.member.lease.name);
                let now = self.time.now();
                let observed = self.group.observe(listing.collect(), &BTreeSet::new(), now);
                observed.is_ok() && self.group.others(now).next().is_none()
            }
            Err(_) => false,
        };
        if is_alone {
            unused.extend(&self.shards);
        }
        let versions = unused.into_iter().filter_map(|slot| {
            let version = slot.lease.version()?.to_owned();
            Some((slot.lease.name.clone(), version))
        });
        self.leases.forget(versions.collect()).await;
    }
}

impl Slot {
    fn new(lease: Lease) -> Self {
        let since = Instant::now();
        Self {
            lease,
            began: None,
            activity: Activity::Idle { since },
            is_to_release: false,
        }
    }

    fn is_idle(&self) -> bool {
        matches!(self.activity, Activity::Idle { .. })
    }

    /// Returns `true` if no request has changed the Lease since then.
    fn is_unchanged_since(&self, then: Instant) -> bool {
        matches!(self.activity, Activity::Idle { since } if since < then || self.began.is_none())
    }

    /// Returns the time of the next renewal; `None` while a request is in flight.
    fn due_at(&self, timing: Timing) -> Option<Instant> {
        let Activity::Idle { since } = self.activity else {
            return None;
        };
        Some(
            self.began
                .map_or(since, |began| began + timing.retry_period),
        )
    }

    fn request(&mut self, action: Action, candidate: Candidate, holders: Holders) -> Request {
        self.began = Some(Instant::now());
        self.activity = Activity::Busy(action);
        Request {
            lease: self.lease.clone(),
            candidate,
            action,
            holders,
        }
    }

    fn finish(&mut self, lease: Lease) {
        self.lease = lease;
        let since = Instant::now();
        self.activity = Activity::Idle { since };
    }
}

/// A request for one Lease, with a copy of its state.
struct Request {
    lease: Lease,
    candidate: Candidate,
    action: Action,
    holders: Holders,
}

impl Request {
    async fn send(self, leases: Arc<Leases>, time: Time) -> Exchange {
        let Self {
            mut lease,
            mut candidate,
            action,
            holders,
        } = self;
        let _permit = leases.permit().await;
        let (leases, one, state) = (&*leases, &mut lease, &mut candidate);
        let result = match action {
            Action::Renew => claiming::renew(leases, one, state, holders, time).await,
            Action::Take => claiming::claim(leases, one, state, time).await.map(drop),
            Action::Release => claiming::release(leases, one, state, time).await.map(drop),
        };
        Exchange {
            lease,
            candidate,
            action,
            result,
        }
    }
}
