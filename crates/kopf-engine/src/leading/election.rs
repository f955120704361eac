//! The task of a leader election.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::Arc;

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{FuturesUnordered, StreamExt as _};
use kopf_core::leading::{Candidate, Timing};
use kopf_core::sharding::{self, Group};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::claiming::{self, Claimed, Failure, Holders, claim, look, renew};
use super::held_shards::Renewed;
use super::keeper::{Keeper, Time};
use super::leases::{Lease, Leases};
use super::listing::{GROUP, ROLE, WITHOUT_SHARDS, listed, selector};
use super::members::Members;
use super::reporting::FailureLog;
use super::{Error, RELEASING, Replica};

/// The only shard.
const ALL: u32 = 0;

/// A leader election in one replica.
pub(super) struct Election {
    contest: Contest,
    keeper: Keeper,
    /// Deletions of the Leases of former replicas. Renewals do not wait for them.
    cleaning: FuturesUnordered<BoxFuture<'static, ()>>,
    /// The last logged holder.
    holder: Option<String>,
}

/// The requests of an election.
struct Contest {
    leases: Arc<Leases>,
    lease: Lease,
    candidate: Candidate,
    /// `false` until it is known that no replicas with shards have joined before the Lease was taken.
    is_confirmed: bool,
    /// Replicas with shards, which must have left before this replica acts, and standbys.
    group: Group,
    /// The Lease by which others see that this replica is alive; `None` if they do not need it.
    member: Option<Lease>,
    members: Members,
    timing: Timing,
    time: Time,
    /// The last logged replicas with shards.
    sharded: Vec<String>,
    /// Leases of former replicas to delete, with their versions.
    forgotten: Vec<(String, String)>,
}

impl Election {
    pub(super) fn new(leases: Leases, replica: Replica) -> Self {
        let Replica {
            settings,
            identity,
            assignments,
            members,
            serves_webhooks,
            clock,
        } = replica;
        let (name, timing) = (&settings.leading.name, settings.leading.timing());
        let time = Time::new(clock);
        let labels = |role: &str| BTreeMap::from([(GROUP, name.clone()), (ROLE, role.to_owned())]);
        let member = format!("{name}-member-{:016x}", sharding::hash(identity.as_bytes()));
        let member = Lease::new(member).with_labels(&labels("member"));
        let failures = FailureLog::new(format!("the Lease {leases}/{name}"));
        Self {
            keeper: Keeper::new(failures, assignments, timing, time),
            contest: Contest {
                leases: Arc::new(leases),
                lease: Lease::new(name).with_labels(&labels("leader")),
                group: Group::new(identity.clone(), timing, WITHOUT_SHARDS),
                candidate: Candidate::new(identity, timing),
                is_confirmed: false,
                member: serves_webhooks.then_some(member),
                members,
                timing,
                time,
                sharded: Vec::new(),
                forgotten: Vec::new(),
            },
            cleaning: FuturesUnordered::new(),
            holder: None,
        }
    }

    /// Participates until the operator exits, then releases the Lease when all results are written.
    pub(super) async fn run(mut self, halt: CancellationToken) -> Result<(), Error> {
        while !halt.is_cancelled() {
            let next = self.round().await?;
            let pause = async {
                tokio::select! {
                    () = halt.cancelled() => {}
                    () = sleep_until(next) => {}
                }
            };
            let pause = beside(&mut self.cleaning, pause);
            self.keeper.during(pause).await;
        }
        self.leave().await
    }

    /// Reads and writes the Lease once. Returns the time of the next round.
    async fn round(&mut self) -> Result<Instant, Error> {
        let began = Instant::now();
        let exchange = beside(&mut self.cleaning, Box::pin(self.contest.exchange()));
        let outcome = self.keeper.during(exchange).await;
        let forgotten = std::mem::take(&mut self.contest.forgotten);
        if !forgotten.is_empty() && self.cleaning.is_empty() {
            let leases = Arc::clone(&self.contest.leases);
            let cleaning = async move { leases.forget(forgotten).await };
            self.cleaning.push(cleaning.boxed());
        }
        let is_taken = outcome.is_ok() && self.contest.is_unconfirmed();
        match outcome {
            Ok(()) => self.keeper.failures.none(),
            Err(Failure::Api(error)) => self.keeper.failures.add(&error),
            Err(Failure::DuplicateIdentity(error)) => return Err(error.into()),
        }
        let is_lost = self.settle();
        Ok(if is_lost || is_taken {
            Instant::now()
        } else {
            self.contest.next_round(began)
        })
    }

    /// Applies the state of the election to the operator. Returns `true` if the Lease is lost.
    fn settle(&mut self) -> bool {
        self.keeper.expire();
        if self.contest.is_unconfirmed() {
            return false;
        }
        let candidate = &self.contest.candidate;
        if let Some(until) = candidate.valid_until() {
            self.holder = None;
            match self.keeper.renew(ALL, until) {
                Renewed::Gained => {
                    let about = self.keeper.failures.about();
                    info!("This replica is the leader now: it holds {about}.");
                }
                Renewed::Resumed => self.keeper.log_resumed(),
                Renewed::Extended => {}
            }
            return false;
        }
        let holder = candidate.other_holder();
        let is_lost = self.keeper.held_shards.lose(ALL);
        if is_lost {
            let reason = match (holder, candidate.record()) {
                (Some(holder), _) => format!("it is held by {holder}"),
                (None, Some(_)) => "another client has released it".to_owned(),
                (None, None) => "it was deleted".to_owned(),
            };
            let about = self.keeper.failures.about();
            warn!(
                "This replica is not the leader any longer: {about} is lost, because {reason}. \
                 Handling is stopped until this replica is the leader again."
            );
        } else if let Some(holder) = holder
            && self.holder.as_deref() != Some(holder)
        {
            let about = self.keeper.failures.about();
            info!("Waiting as a standby: {about} is held by {holder}.");
        }
        if let Some(holder) = holder {
            self.holder = Some(holder.to_owned());
        }
        is_lost
    }

    /// Renews the Lease until all handlers have ended, then releases it.
    async fn leave(mut self) -> Result<(), Error> {
        let mut next = Instant::now() + self.contest.timing.retry_period;
        while !self.keeper.held_shards.is_empty() {
            self.keeper.held_shards.drain_all();
            tokio::select! {
                biased;
                () = self.keeper.held_shards.drained() => {
                    drop(self.keeper.held_shards.take_drained());
                }
                () = sleep_until(next) => next = self.round().await?,
            }
        }
        match timeout(RELEASING, Box::pin(self.contest.leave())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!("The Lease is not released and will expire: {error}"),
            Err(_) => warn!("The Lease is not released in time and will expire."),
        }
        Ok(())
    }
}

/// Waits for `work`, and polls the deletions meanwhile.
async fn beside<T>(
    cleaning: &mut FuturesUnordered<BoxFuture<'static, ()>>,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            Some(()) = cleaning.next() => {}
        }
    }
}

impl Contest {
    fn is_holder(&self) -> bool {
        self.candidate.valid_until().is_some()
    }

    fn is_unconfirmed(&self) -> bool {
        self.is_holder() && !self.is_confirmed
    }

    /// Returns the time of the next round: after the interval of renewals, or when the Lease of another
    /// replica expires.
    fn next_round(&self, began: Instant) -> Instant {
        let regular = began + self.timing.retry_period;
        let available = self.candidate.available_at();
        let available = available.map(|at| self.time.instant(at));
        match available.filter(|at| *at > Instant::now()) {
            Some(at) if !self.is_holder() => regular.min(at),
            _ => regular,
        }
    }

    /// Reads or renews the Lease, and sees who else is there, with as few requests one after another as
    /// possible: slow ones must not delay renewals.
    async fn exchange(&mut self) -> Result<(), Failure> {
        let is_holder = self.is_holder();
        let lists = self.member.is_some() || self.is_unconfirmed();
        let Self {
            leases,
            lease,
            candidate,
            group,
            member,
            time,
            ..
        } = self;
        let (leases, group_selector) = (&**leases, selector(&lease.name));
        let contesting = async {
            if is_holder {
                renew(leases, lease, candidate, Holders::Any, *time).await
            } else {
                look(leases, lease, candidate, *time).await
            }
        };
        let joining = async {
            match member {
                Some(member) => renew(leases, member, group.member(), Holders::Own, *time).await,
                None => Ok(()),
            }
        };
        let listing = async {
            if lists {
                Some(leases.list(&group_selector).await)
            } else {
                None
            }
        };
        let (contested, joined, listing) = tokio::join!(contesting, joining, listing);
        self.note_joining(joined)?;
        if let Some(listing) = listing {
            self.observe_group(listing)?;
        }
        contested?;
        match (is_holder, self.is_holder()) {
            (true, true) if lists => self.confirm().await,
            (true, _) => Ok(()),
            (false, _) => self.take().await,
        }
    }

    /// Takes the Lease if it is free and no replicas with shards are alive.
    async fn take(&mut self) -> Result<(), Failure> {
        if !self.candidate.is_available(self.time.now()) {
            return Ok(());
        }
        if self.member.is_none() {
            let listing = self.leases.list(&selector(&self.lease.name)).await;
            self.observe_group(listing)?;
        }
        if !self.sharded.is_empty() {
            return Ok(());
        }
        let Self {
            leases,
            lease,
            candidate,
            time,
            ..
        } = self;
        if claim(leases, lease, candidate, *time).await? == Claimed::Accepted {
            self.is_confirmed = false;
        }
        Ok(())
    }

    /// Checks, after a listing, that no replicas with shards have joined before the Lease was taken. They
    /// join before they look for a leader: of two replicas that start at the same time, at least one
    /// sees the other. Then finds the Leases of former replicas.
    async fn confirm(&mut self) -> Result<(), Failure> {
        if !self.is_confirmed && !self.sharded.is_empty() {
            return self.release().await;
        }
        self.is_confirmed = true;
        let forgotten = self.group.abandoned(self.time.now());
        let own = &self.lease.name;
        let forgotten = forgotten.into_iter().filter(|(name, _)| name != own);
        self.forgotten = forgotten.collect();
        Ok(())
    }

    /// Processes a listing of the group's Leases. Without permission, replicas with shards are not
    /// detected.
    fn observe_group(
        &mut self,
        listing: Result<Vec<serde_json::Value>, kopf_client::Error>,
    ) -> Result<(), Failure> {
        let items = match listing {
            Ok(items) => items,
            Err(error) if error.is_forbidden() => {
                debug!("Other replicas cannot be detected: {error}");
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let own = self.member.as_ref().map(|member| member.name.as_str());
        let listing = items.iter().filter_map(listed);
        let listing = listing.filter(|lease| Some(lease.name.as_str()) != own);
        let now = self.time.now();
        self.group
            .observe(listing.collect(), &BTreeSet::new(), now)?;
        self.members.publish(self.group.others(now));
        let sharded = self.group.plan(now).mismatched;
        if !sharded.is_empty() && sharded != self.sharded {
            warn!(
                "Waiting for replicas with shards: {}. Stop them, or configure the same number of \
                 shards for all replicas.",
                sharded.join(", ")
            );
        }
        self.sharded = sharded;
        Ok(())
    }

    /// The election does not depend on the own member Lease.
    fn note_joining(&mut self, joined: Result<(), Failure>) -> Result<(), Failure> {
        match joined {
            Err(Failure::Api(error)) if error.is_forbidden() => {
                warn!(
                    "Other replicas cannot see whether this one is alive, so they replace its webhooks \
                     only at their next start: {error}"
                );
                self.member = None;
                Ok(())
            }
            Err(Failure::Api(error)) => {
                debug!("The Lease of this replica is not renewed: {error}");
                Ok(())
            }
            result => result,
        }
    }

    /// Releases the Lease, if this replica holds it.
    async fn release(&mut self) -> Result<(), Failure> {
        let (lease, candidate) = (&mut self.lease, &mut self.candidate);
        if claiming::release(&self.leases, lease, candidate, self.time).await? {
            debug!("The Lease {} is released.", self.lease.name);
        }
        Ok(())
    }

    /// Releases the Lease, and leaves the group.
    async fn leave(&mut self) -> Result<(), Failure> {
        let released = self.release().await;
        if let Some(member) = &self.member
            && let Some(version) = member.version()
        {
            self.leases
                .forget(vec![(member.name.clone(), version.to_owned())])
                .await;
        }
        released
    }
}
