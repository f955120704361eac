//! The task of a leader election.

use std::time::Duration;

use kopf_core::leading::{Candidate, Timing};
use kopf_core::object::Moment;
use kopf_core::sharding::Group;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::held_shards::{HeldShards, Renewed};
use super::leases::{Lease, Leases};
use super::listing::{GROUP, ROLE, WITHOUT_SHARDS, listed, selector};
use super::reporting::FailureLog;
use super::{Error, RELEASING, Replica};
use crate::clock::Clock;

/// The only shard.
const ALL: u32 = 0;

/// The state of a leader election in one replica.
pub(super) struct Election {
    leases: Leases,
    lease: Lease,
    candidate: Candidate,
    /// Replicas with shards, which must have left before this replica acts.
    group: Group,
    held_shards: HeldShards,
    timing: Timing,
    clock: Clock,
    epoch: Instant,
    failures: FailureLog,
    /// The last logged holder.
    holder: String,
    /// The last logged replicas with shards.
    sharded: Vec<String>,
}

impl Election {
    pub(super) fn new(leases: Leases, replica: Replica) -> Self {
        let Replica {
            settings,
            identity,
            assignments,
            clock,
        } = replica;
        let (name, timing) = (&settings.leading.name, settings.leading.timing());
        Self {
            failures: FailureLog::new(format!("the Lease {leases}/{name}")),
            leases,
            lease: Lease::new(name)
                .with_labels(&[(GROUP, name.clone()), (ROLE, "leader".to_owned())].into()),
            group: Group::new(identity.clone(), timing, WITHOUT_SHARDS),
            candidate: Candidate::new(identity, timing),
            held_shards: HeldShards::new(assignments),
            timing,
            clock,
            epoch: Instant::now(),
            holder: String::new(),
            sharded: Vec::new(),
        }
    }

    /// Participates until the operator exits, then releases the Lease when all results are written.
    pub(super) async fn run(mut self, halt: CancellationToken) -> Result<(), Error> {
        while !halt.is_cancelled() {
            self.round().await?;
            tokio::select! {
                () = halt.cancelled() => {}
                () = sleep(self.pause()) => {}
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

    /// Returns the delay before the next round. A leader whose renewals fail does not sleep beyond
    /// the end of its Lease.
    fn pause(&self) -> Duration {
        let period = self.timing.retry_period;
        let left = self.candidate.valid_until();
        left.map_or(period, |until| until.since(self.now()).min(period))
    }

    /// Reads and writes the Lease once, within the remaining time.
    async fn round(&mut self) -> Result<(), Error> {
        self.settle();
        let valid_until = self.candidate.valid_until();
        let limit = valid_until.unwrap_or_else(|| self.now().after(self.timing.renew_deadline));
        let limit = self.instant(limit);
        match timeout_at(limit, self.exchange()).await {
            Ok(Ok(())) => self.failures.none(),
            Ok(Err(Failure::Api(error))) => self.failures.add(&error),
            Ok(Err(Failure::DuplicateIdentity(error))) => return Err(error.into()),
            Err(_) => self.failures.add_timeout(),
        }
        self.settle();
        Ok(())
    }

    async fn exchange(&mut self) -> Result<(), Failure> {
        let is_leader = self.candidate.valid_until().is_some();
        if !is_leader || self.candidate.is_unknown() {
            let found = self.leases.read(&mut self.lease).await?;
            self.candidate.observe(found, self.now())?;
        }
        let began = self.now();
        let Some(intent) = self.candidate.intent(began) else {
            return Ok(());
        };
        if !is_leader && self.waits_for_shards().await? {
            return Ok(());
        }
        let spec = self.candidate.claim(self.clock.now());
        match self.leases.write(&mut self.lease, &intent, spec).await? {
            Some(record) => self.candidate.accepted(record, began),
            None => self.candidate.conflicted(),
        }
        // Replicas with shards join before they look for a leader: of two replicas that start at the
        // same time, at least one sees the other.
        let is_new = !is_leader && self.candidate.valid_until().is_some();
        if is_new && self.waits_for_shards().await? {
            self.release().await?;
        }
        Ok(())
    }

    /// Returns `true` if replicas of the group with shards are alive.
    async fn waits_for_shards(&mut self) -> Result<bool, Failure> {
        let items = match self.leases.list(&selector(&self.lease.name)).await {
            Ok(items) => items,
            Err(error) if error.is_forbidden() => {
                debug!("Replicas with shards cannot be detected: {error}");
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        let now = self.now();
        let listing = items.iter().filter_map(listed).collect();
        self.group.observe(listing, now)?;
        let sharded = self.group.plan(now).mismatched;
        if !sharded.is_empty() && sharded != self.sharded {
            warn!(
                "Waiting for replicas with shards: {}. Stop them, or configure the same number of \
                 shards for all replicas.",
                sharded.join(", ")
            );
        }
        self.sharded = sharded;
        Ok(!self.sharded.is_empty())
    }

    /// Releases the Lease, if this replica holds it.
    async fn release(&mut self) -> Result<(), kopf_client::Error> {
        if let (Some(spec), Some(intent)) = (
            self.candidate.release(self.clock.now()),
            self.candidate.intent(self.now()),
        ) && self
            .leases
            .write(&mut self.lease, &intent, spec)
            .await?
            .is_some()
        {
            debug!("The Lease {} is released.", self.lease.name);
        }
        self.candidate.resigned();
        Ok(())
    }

    /// Applies the state of the election to the operator.
    fn settle(&mut self) {
        self.candidate.expire(self.now());
        let (leases, name) = (&self.leases, &self.lease.name);
        if let Some(until) = self.candidate.valid_until() {
            self.holder.clear();
            let end = self.instant(until);
            if self.held_shards.renew(ALL, end) == Renewed::Gained {
                info!("This replica is the leader now: it holds the Lease {leases}/{name}.");
            }
            return;
        }
        if self.held_shards.lose(ALL) {
            warn!(
                "This replica is not the leader any longer: the Lease {leases}/{name} is lost. \
                 Handling is stopped until it is the leader again."
            );
        }
        let holder = self.candidate.record().map(|record| record.holder.clone());
        let holder = holder.unwrap_or_default();
        if !holder.is_empty() && holder != self.holder {
            info!("Waiting as a standby: the Lease {leases}/{name} is held by {holder}.");
            self.holder = holder;
        }
    }

    /// Renews the Lease until all handlers have ended, then releases it.
    async fn leave(mut self) -> Result<(), Error> {
        while !self.held_shards.is_empty() {
            self.held_shards.drain_all();
            tokio::select! {
                biased;
                () = self.held_shards.drained() => drop(self.held_shards.take_drained()),
                () = sleep(self.pause()) => self.round().await?,
            }
        }
        match timeout(RELEASING, self.release()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!("The Lease is not released and will expire: {error}"),
            Err(_) => warn!("The Lease is not released in time and will expire."),
        }
        Ok(())
    }
}

/// A failure of one round.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Api(#[from] kopf_client::Error),
    #[error(transparent)]
    DuplicateIdentity(#[from] kopf_core::leading::DuplicateIdentity),
}
