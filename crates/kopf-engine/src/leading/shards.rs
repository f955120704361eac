//! The task of a replica that handles a part of the objects.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use kopf_core::leading::{Intent, LeaseRecord, Timing};
use kopf_core::object::Moment;
use kopf_core::sharding::{self, Group, Listed, Plan, Role};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::claiming::{Failure, keep};
use super::held_shards::Renewed;
use super::keeper::{Keeper, Time};
use super::leases::{Lease, Leases};
use super::listing::{GROUP, ROLE, SHARD, SHARDS, listed};
use super::members::Members;
use super::reporting::FailureLog;
use super::{CONCURRENT_WRITES, Error, RELEASING, Replica};

/// A replica that handles some shards.
pub(super) struct Sharding {
    share: Share,
    keeper: Keeper,
    /// The last logged number of held shards.
    logged: Option<usize>,
}

/// The requests of a replica that handles some shards.
struct Share {
    leases: Leases,
    selector: String,
    group: Group,
    member: Lease,
    shards: Vec<Lease>,
    members: Members,
    timing: Timing,
    time: Time,
    /// The last logged replicas with another number of shards.
    mismatched: Vec<String>,
}

/// A write to the Lease of a shard.
struct Write {
    shard: u32,
    lease: Lease,
    intent: Intent,
    spec: Map<String, Value>,
    began: Moment,
    result: Option<Result<Option<LeaseRecord>, kopf_client::Error>>,
}

/// The effect of writes to Leases of shards.
#[derive(Default)]
struct Written {
    accepted: BTreeSet<u32>,
    failure: Option<kopf_client::Error>,
}

impl Sharding {
    pub(super) fn new(leases: Leases, replica: Replica, count: u32) -> Self {
        let Replica {
            settings,
            identity,
            assignments,
            members,
            clock,
            ..
        } = replica;
        let (name, timing) = (&settings.leading.name, settings.leading.timing());
        let time = Time::new(clock);
        let labels = |role: &str, shard: Option<u32>| {
            let mut labels = BTreeMap::from([
                (GROUP, name.clone()),
                (ROLE, role.to_owned()),
                (SHARDS, count.to_string()),
            ]);
            labels.extend(shard.map(|shard| (SHARD, shard.to_string())));
            labels
        };
        let member = format!("{name}-member-{:016x}", sharding::hash(identity.as_bytes()));
        let shard = |shard: u32| {
            let name = format!("{name}-shard-{shard}-of-{count}");
            Lease::new(name).with_labels(&labels("shard", Some(shard)))
        };
        let failures = FailureLog::new(format!("the Leases of {leases}/{name}"));
        Self {
            keeper: Keeper::new(failures, assignments, timing, time),
            share: Share {
                selector: super::listing::selector(name),
                leases,
                group: Group::new(identity, timing, count),
                member: Lease::new(member).with_labels(&labels("member", None)),
                shards: (0..count).map(shard).collect(),
                members,
                timing,
                time,
                mismatched: Vec::new(),
            },
            logged: None,
        }
    }

    /// Participates until the operator exits, then releases each shard when its results are
    /// written.
    pub(super) async fn run(mut self, halt: CancellationToken) -> Result<(), Error> {
        while !halt.is_cancelled() {
            let next = self.round(Phase::Serving).await?;
            loop {
                tokio::select! {
                    () = halt.cancelled() => break,
                    () = sleep_until(next) => break,
                    () = self.keeper.expiration() => self.keeper.expire(),
                    () = self.keeper.held_shards.drained() => self.release_drained().await,
                }
            }
        }
        self.leave().await
    }

    /// Renews, acquires and releases shards once. Returns the time of the next round.
    async fn round(&mut self, phase: Phase) -> Result<Instant, Error> {
        let began = Instant::now();
        let outcome = self.keeper.during(self.share.exchange(phase)).await;
        let released = match outcome {
            Ok(released) => {
                self.keeper.failures.none();
                released
            }
            Err(Failure::Api(error)) => {
                self.keeper.failures.add(&error);
                Vec::new()
            }
            Err(Failure::DuplicateIdentity(error)) => return Err(error.into()),
        };
        let is_any_lost = self.settle();
        for shard in released {
            debug!(
                "Shard {shard} will be released to other replicas when its handlers have ended."
            );
            self.share.group.drain(shard);
            self.keeper.held_shards.drain(shard);
        }
        Ok(if is_any_lost {
            Instant::now()
        } else {
            began + self.share.timing.retry_period
        })
    }

    /// Applies the state of the group to the operator. Returns `true` if any shard is lost.
    fn settle(&mut self) -> bool {
        self.keeper.expire();
        let (mut is_any_resumed, mut is_any_lost) = (false, false);
        let count = self.share.group.count();
        for shard in 0..count {
            match self.share.group.valid_until(shard) {
                Some(until) => {
                    is_any_resumed |= self.keeper.renew(shard, until) == Renewed::Resumed;
                }
                None if self.keeper.held_shards.lose(shard) => {
                    is_any_lost = true;
                    let reason = self.share.loss_of(shard);
                    warn!("Shard {shard} is lost: {reason}.");
                }
                None => {}
            }
        }
        if is_any_resumed {
            self.keeper.log_resumed();
        }
        let held = self.keeper.held_shards.len();
        if self.logged.replace(held) != Some(held) {
            info!("This replica handles {held} of {count} shards now.");
        }
        is_any_lost
    }

    /// Releases the shards whose handlers have ended.
    async fn release_drained(&mut self) {
        for shard in self.keeper.held_shards.take_drained() {
            let releasing = timeout(RELEASING, self.share.release(shard));
            match self.keeper.during(releasing).await {
                Ok(Ok(true)) => debug!("Shard {shard} is released."),
                Ok(Ok(false)) => {}
                Ok(Err(error)) => {
                    warn!("Shard {shard} is not released and will expire: {error}");
                }
                Err(_) => warn!("Shard {shard} is not released in time and will expire."),
            }
            self.share.group.drained(shard);
        }
    }

    /// Renews the shards until all handlers have ended, releases them, and leaves the group.
    async fn leave(mut self) -> Result<(), Error> {
        let mut next = Instant::now() + self.share.timing.retry_period;
        while !self.keeper.held_shards.is_empty() {
            self.keeper.held_shards.drain_all();
            tokio::select! {
                biased;
                () = self.keeper.held_shards.drained() => self.release_drained().await,
                () = sleep_until(next) => next = self.round(Phase::Leaving).await?,
            }
        }
        if timeout(RELEASING, self.share.leave()).await.is_err() {
            debug!("The Leases of this replica are not deleted in time and will expire.");
        }
        Ok(())
    }
}

impl Share {
    /// Renews the held shards and the member Lease, lists the group, and acquires shards. Returns the
    /// shards to release.
    ///
    /// The member Lease must exist before the listing that precedes the acquisition of a shard. Apart
    /// from that, requests are concurrent: slow ones must not delay renewals.
    async fn exchange(&mut self, phase: Phase) -> Result<Vec<u32>, Failure> {
        let began = self.time.now();
        let until = self.group.member().valid_until();
        let is_member = until.is_some_and(|until| began < until);
        let writes = self.prepare(0..self.group.count(), Held::Only);
        let Self {
            leases,
            selector,
            group,
            member,
            time,
            ..
        } = self;
        let (leases, renewing) = (&*leases, send(leases, writes));
        let joining = keep(leases, member, group.member(), *time);
        let (written, joined, listing) = if is_member {
            tokio::join!(renewing, joining, leases.list(selector))
        } else {
            let joining = async {
                let joined = joining.await;
                (joined, leases.list(selector).await)
            };
            let (written, (joined, listing)) = tokio::join!(renewing, joining);
            (written, joined, listing)
        };
        let renewed = self.written(written);
        joined?;
        let listing = self.classify(listing?, &renewed.accepted);
        let now = self.time.now();
        self.group.observe(listing, now)?;
        self.members.publish(self.group.others(now));
        let plan = self.group.plan(now);
        self.report(&plan);
        let takes = match phase {
            Phase::Serving => &*plan.take,
            Phase::Leaving => &[],
        };
        let is_slow = now.since(began) >= self.timing.retry_period && !takes.is_empty();
        let again = plan.renew.iter().copied();
        let again = again.filter(|shard| is_slow || !renewed.accepted.contains(shard));
        let writes = self.prepare(again.chain(takes.iter().copied()), Held::OrNot);
        let (written, ()) = tokio::join!(
            send(&self.leases, writes),
            self.leases.forget(plan.forget.clone())
        );
        let failure = self.written(written).failure.or(renewed.failure);
        failure.map_or(Ok(plan.release), |error| Err(error.into()))
    }

    /// Classifies the listed Leases of the group, and stores those of shards. The listing may be older
    /// than the renewals that were accepted meanwhile.
    fn classify(&mut self, items: Vec<Value>, accepted: &BTreeSet<u32>) -> Vec<Listed> {
        for (_, lease) in (0..)
            .zip(&mut self.shards)
            .filter(|(n, _)| !accepted.contains(n))
        {
            lease.seen(None);
        }
        let count = self.group.count();
        let mut listing = Vec::new();
        for item in items {
            let Some(listed) = listed(&item) else {
                continue;
            };
            match listed.role {
                Role::Member if listed.name == self.member.name => continue,
                Role::Shard(shard) if listed.shards == count => {
                    if accepted.contains(&shard) {
                        continue;
                    }
                    if let Some(lease) = self.shards.get_mut(shard as usize) {
                        lease.seen(Some(item));
                    }
                }
                Role::Member | Role::Shard(_) => {}
            }
            listing.push(listed);
        }
        for shard in accepted {
            let record = self
                .group
                .shard(*shard)
                .and_then(|one| one.record().cloned());
            let lease = self.shards.get(*shard as usize);
            if let (Some(record), Some(lease)) = (record, lease) {
                listing.push(Listed {
                    name: lease.name.clone(),
                    role: Role::Shard(*shard),
                    shards: count,
                    record,
                });
            }
        }
        listing
    }

    /// Returns the writes that acquire or renew these shards.
    fn prepare(&mut self, shards: impl Iterator<Item = u32>, held: Held) -> Vec<Write> {
        let (began, utc) = (self.time.now(), self.time.utc());
        let mut writes = Vec::new();
        for shard in shards {
            let (Some(candidate), Some(lease)) =
                (self.group.shard(shard), self.shards.get(shard as usize))
            else {
                continue;
            };
            if held == Held::Only && candidate.valid_until().is_none() {
                continue;
            }
            if let Some(intent) = candidate.intent(began) {
                writes.push(Write {
                    shard,
                    lease: lease.clone(),
                    spec: candidate.claim(utc),
                    intent,
                    began,
                    result: None,
                });
            }
        }
        writes
    }

    /// Notes the responses to writes.
    fn written(&mut self, writes: Vec<Write>) -> Written {
        let mut written = Written::default();
        for write in writes {
            let Some(candidate) = self.group.shard(write.shard) else {
                continue;
            };
            match write.result {
                Some(Ok(Some(record))) => {
                    candidate.accepted(record, write.began);
                    written.accepted.insert(write.shard);
                    if let Some(known) = self.shards.get_mut(write.shard as usize) {
                        *known = write.lease;
                    }
                }
                Some(Err(error)) => {
                    candidate.conflicted();
                    written.failure = Some(error);
                }
                Some(Ok(None)) | None => candidate.conflicted(),
            }
        }
        written
    }

    /// Returns the reason why a shard is not held any longer.
    fn loss_of(&mut self, shard: u32) -> String {
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

    fn report(&mut self, plan: &Plan) {
        if plan.mismatched == self.mismatched {
            return;
        }
        self.mismatched.clone_from(&plan.mismatched);
        if !plan.mismatched.is_empty() {
            warn!(
                "Waiting for replicas with another number of shards, or without shards: {}. \
                 Stop them, or configure the same number for all replicas.",
                plan.mismatched.join(", ")
            );
        }
    }

    /// Releases a shard. Returns `false` if this replica does not hold it.
    async fn release(&mut self, shard: u32) -> Result<bool, kopf_client::Error> {
        let (now, utc) = (self.time.now(), self.time.utc());
        let candidate = self.group.shard(shard);
        let lease = self.shards.get_mut(shard as usize);
        if let (Some(candidate), Some(lease)) = (candidate, lease)
            && let (Some(spec), Some(intent)) = (candidate.release(utc), candidate.intent(now))
        {
            return Ok(self.leases.write(lease, &intent, spec).await?.is_some());
        }
        Ok(false)
    }

    /// Deletes the member Lease. The last replica also deletes the Leases of the shards, which would
    /// remain forever.
    async fn leave(&mut self) {
        let mut unused: Vec<&Lease> = vec![&self.member];
        let is_alone = match self.leases.list(&self.selector).await {
            Ok(items) => {
                let listing = items.iter().filter_map(listed);
                let listing = listing.filter(|lease| lease.name != self.member.name);
                let now = self.time.now();
                let observed = self.group.observe(listing.collect(), now);
                observed.is_ok() && self.group.others(now).next().is_none()
            }
            Err(_) => false,
        };
        if is_alone {
            unused.extend(&self.shards);
        }
        let versions = unused.into_iter().filter_map(|lease| {
            let version = lease.version()?.to_owned();
            Some((lease.name.clone(), version))
        });
        self.leases.forget(versions.collect()).await;
    }
}

/// The shards to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    /// Those that are held.
    Only,
    /// Those that are held or free.
    OrNot,
}

/// Sends writes concurrently. Dropping it leaves their effect unknown.
async fn send(leases: &Leases, writes: Vec<Write>) -> Vec<Write> {
    let sending = writes.into_iter().map(async |mut write| {
        let Write {
            lease,
            intent,
            spec,
            result,
            ..
        } = &mut write;
        *result = Some(leases.write(lease, intent, std::mem::take(spec)).await);
        write
    });
    let sending = futures::stream::iter(sending);
    sending.buffer_unordered(CONCURRENT_WRITES).collect().await
}

/// The phase of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    /// The operator exits: no shards are acquired.
    Leaving,
}
