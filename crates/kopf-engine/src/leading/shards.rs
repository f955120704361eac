//! The task of a replica that handles a part of the objects.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use kopf_core::leading::{Intent, LeaseRecord, Timing};
use kopf_core::object::Moment;
use kopf_core::sharding::{self, Group, Listed, Plan};
use serde_json::{Map, Value};
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::election::Failure;
use super::held_shards::HeldShards;
use super::leases::{Lease, Leases};
use super::listing::{GROUP, ROLE, SHARD, SHARDS, listed};
use super::reporting::FailureLog;
use super::{Error, RELEASING, Replica};
use crate::clock::Clock;

/// Maximum number of concurrent writes.
const CONCURRENT_WRITES: usize = 8;

/// A replica that handles some shards.
pub(super) struct Sharding {
    leases: Leases,
    selector: String,
    group: Group,
    member: Lease,
    shards: Vec<Lease>,
    held_shards: HeldShards,
    timing: Timing,
    clock: Clock,
    epoch: Instant,
    failures: FailureLog,
    mismatched: Vec<String>,
    /// The last logged number of held shards.
    logged: usize,
}

/// A write to the Lease of a shard.
struct Write {
    shard: u32,
    lease: Lease,
    intent: Intent,
    spec: Map<String, Value>,
    began: Moment,
}

impl Sharding {
    pub(super) fn new(leases: Leases, replica: Replica, count: u32) -> Self {
        let Replica {
            settings,
            identity,
            assignments,
            clock,
        } = replica;
        let (name, timing) = (&settings.leading.name, settings.leading.timing());
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
        Self {
            failures: FailureLog::new(format!("the Leases of {leases}/{name}")),
            selector: super::listing::selector(name),
            leases,
            group: Group::new(identity, timing, count),
            member: Lease::new(member).with_labels(&labels("member", None)),
            shards: (0..count).map(shard).collect(),
            held_shards: HeldShards::new(assignments),
            timing,
            clock,
            epoch: Instant::now(),
            mismatched: Vec::new(),
            logged: usize::MAX,
        }
    }

    /// Participates until the operator exits, then releases each shard when its results are
    /// written.
    pub(super) async fn run(mut self, halt: CancellationToken) -> Result<(), Error> {
        while !halt.is_cancelled() {
            self.round(Phase::Serving).await?;
            let next = Instant::now() + self.pause();
            loop {
                tokio::select! {
                    () = halt.cancelled() => break,
                    () = tokio::time::sleep_until(next) => break,
                    () = self.held_shards.drained() => self.release_drained().await,
                }
            }
        }
        self.leave().await
    }

    fn now(&self) -> Moment {
        Moment::new(self.epoch.elapsed())
    }

    fn instant(&self, moment: Moment) -> Instant {
        self.epoch + moment.since(Moment::default())
    }

    /// Returns the time at which the first held shard is lost unless it is renewed.
    fn first_end(&self) -> Option<Moment> {
        let shards = 0..self.group.count();
        shards
            .filter_map(|shard| self.group.valid_until(shard))
            .min()
    }

    fn pause(&self) -> Duration {
        let period = self.timing.retry_period;
        let left = self.first_end();
        left.map_or(period, |until| until.since(self.now()).min(period))
    }

    /// Renews, acquires and releases shards once, within the remaining time.
    async fn round(&mut self, phase: Phase) -> Result<(), Error> {
        self.settle();
        let limit = self.first_end();
        let limit = limit.unwrap_or_else(|| self.now().after(self.timing.renew_deadline));
        let limit = self.instant(limit);
        match timeout_at(limit, self.exchange(phase)).await {
            Ok(Ok(())) => self.failures.none(),
            Ok(Err(Failure::Api(error))) => self.failures.add(&error),
            Ok(Err(Failure::DuplicateIdentity(error))) => return Err(error.into()),
            Err(_) => self.failures.add_timeout(),
        }
        self.settle();
        Ok(())
    }

    async fn exchange(&mut self, phase: Phase) -> Result<(), Failure> {
        self.renew_member().await?;
        let listing = self.list().await?;
        let now = self.now();
        self.group.observe(listing, now)?;
        let plan = self.group.plan(now);
        self.report(&plan);
        let takes = match phase {
            Phase::Serving => &*plan.take,
            Phase::Leaving => &[],
        };
        self.write(plan.renew.iter().chain(takes)).await?;
        for shard in plan.release {
            debug!(
                "Shard {shard} will be released to other replicas when its handlers have ended."
            );
            self.group.drain(shard);
            self.held_shards.drain(shard);
        }
        for (name, version) in plan.forget {
            if let Err(error) = self.leases.delete(&name, &version).await {
                debug!("The Lease {name} of a former replica is not deleted: {error}");
            }
        }
        Ok(())
    }

    async fn renew_member(&mut self) -> Result<(), Failure> {
        if self.group.member().is_unknown() {
            let found = self.leases.read(&mut self.member).await?;
            let now = self.now();
            self.group.member().observe(found, now)?;
        }
        let (began, utc) = (self.now(), self.clock.now());
        let member = self.group.member();
        let Some(intent) = member.intent(began) else {
            member.conflicted();
            return Ok(());
        };
        let spec = member.claim(utc);
        match self.leases.write(&mut self.member, &intent, spec).await? {
            Some(record) => self.group.member().accepted(record, began),
            None => self.group.member().conflicted(),
        }
        Ok(())
    }

    /// Lists the Leases of the group and stores those of shards.
    async fn list(&mut self) -> Result<Vec<Listed>, Failure> {
        let items = self.leases.list(&self.selector).await?;
        for lease in &mut self.shards {
            lease.seen(None);
        }
        let mut listing = Vec::new();
        for item in items {
            let Some(listed) = listed(&item) else {
                continue;
            };
            if listed.name == self.member.name {
                continue;
            }
            if let Some(lease) = self.shards.iter_mut().find(|one| one.name == listed.name) {
                lease.seen(Some(item));
            }
            listing.push(listed);
        }
        Ok(listing)
    }

    /// Acquires or renews shards.
    async fn write<'a>(&mut self, shards: impl Iterator<Item = &'a u32>) -> Result<(), Failure> {
        let (began, utc) = (self.now(), self.clock.now());
        let mut writes = Vec::new();
        for &shard in shards {
            let (Some(candidate), Some(lease)) =
                (self.group.shard(shard), self.shards.get(shard as usize))
            else {
                continue;
            };
            if let Some(intent) = candidate.intent(began) {
                let (lease, spec) = (lease.clone(), candidate.claim(utc));
                writes.push(Write {
                    shard,
                    lease,
                    intent,
                    spec,
                    began,
                });
            }
        }
        let leases = &self.leases;
        let sending = writes.into_iter().map(async |mut write| {
            let Write { intent, spec, .. } = &write;
            let (intent, spec) = (intent.clone(), spec.clone());
            let result = leases.write(&mut write.lease, &intent, spec).await;
            (write, result)
        });
        let written: Vec<_> = futures::stream::iter(sending)
            .buffer_unordered(CONCURRENT_WRITES)
            .collect()
            .await;
        let mut failure = None;
        for (write, result) in written {
            failure = self.written(write, result).or(failure);
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    fn written(
        &mut self,
        write: Write,
        result: Result<Option<LeaseRecord>, kopf_client::Error>,
    ) -> Option<kopf_client::Error> {
        let Write {
            shard,
            lease,
            began,
            ..
        } = write;
        let candidate = self.group.shard(shard)?;
        match result {
            Ok(Some(record)) => candidate.accepted(record, began),
            Ok(None) => candidate.conflicted(),
            Err(error) => {
                candidate.conflicted();
                return Some(error);
            }
        }
        if let Some(known) = self.shards.get_mut(shard as usize) {
            *known = lease;
        }
        None
    }

    /// Applies the state of the group to the operator.
    fn settle(&mut self) {
        let now = self.now();
        for shard in self.group.expire(now) {
            warn!("Shard {shard} is lost: its Lease could not be renewed in time.");
        }
        for shard in 0..self.group.count() {
            match self.group.valid_until(shard) {
                Some(until) => {
                    let end = self.instant(until);
                    self.held_shards.renew(shard, end);
                }
                None => {
                    self.held_shards.lose(shard);
                }
            }
        }
        let held = self.held_shards.len();
        if std::mem::replace(&mut self.logged, held) != held {
            info!(
                "This replica handles {held} of {} shards now.",
                self.group.count()
            );
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

    /// Releases the shards whose handlers have ended.
    async fn release_drained(&mut self) {
        for shard in self.held_shards.take_drained() {
            let (now, utc) = (self.now(), self.clock.now());
            if let (Some(candidate), Some(lease)) =
                (self.group.shard(shard), self.shards.get_mut(shard as usize))
                && let (Some(spec), Some(intent)) = (candidate.release(utc), candidate.intent(now))
            {
                let releasing = self.leases.write(lease, &intent, spec);
                match timeout(RELEASING, releasing).await {
                    Ok(Ok(Some(_))) => debug!("Shard {shard} is released."),
                    Ok(Ok(None)) => {}
                    Ok(Err(error)) => {
                        warn!("Shard {shard} is not released and will expire: {error}");
                    }
                    Err(_) => warn!("Shard {shard} is not released in time and will expire."),
                }
            }
            self.group.drained(shard);
        }
    }

    /// Renews the shards until all handlers have ended, releases them, and leaves the group.
    async fn leave(mut self) -> Result<(), Error> {
        while !self.held_shards.is_empty() {
            self.held_shards.drain_all();
            tokio::select! {
                biased;
                () = self.held_shards.drained() => self.release_drained().await,
                () = sleep(self.pause()) => self.round(Phase::Leaving).await?,
            }
        }
        if let Some(record) = self.group.member().record() {
            let (name, version) = (self.member.name.clone(), record.version.clone());
            let deleting = self.leases.delete(&name, &version);
            if !matches!(timeout(RELEASING, deleting).await, Ok(Ok(()))) {
                debug!("The Lease {name} of this replica is not deleted and will expire.");
            }
        }
        Ok(())
    }
}

/// The phase of a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Serving,
    /// The operator exits: no shards are acquired.
    Leaving,
}
