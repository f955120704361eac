//! The task of a replica that handles a part of the objects.
//!
//! Requests for different Leases are independent: a slow one delays only the Lease that it is for.

use futures::StreamExt as _;
use kopf_core::sharding::Plan;
use tokio::time::{sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use super::claiming::Failure;
use super::held_shards::Renewed;
use super::keeper::{Keeper, Time};
use super::leases::Leases;
use super::reporting::FailureLog;
use super::share::{Action, Exchange, Response, Share};
use super::{Error, RELEASING, Replica};

/// A replica that handles some shards.
pub(super) struct Sharding {
    share: Share,
    keeper: Keeper,
    /// The last logged number of held shards.
    logged: Option<usize>,
    /// The last logged replicas with another number of shards.
    mismatched: Vec<String>,
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
        let failures = FailureLog::new(format!("the Leases of {leases}/{name}"));
        Self {
            keeper: Keeper::new(failures, assignments, timing, time),
            share: Share::new(leases, name, &identity, count, timing, time, members),
            logged: None,
            mismatched: Vec::new(),
        }
    }

    /// Participates until the operator exits, then releases each shard when its results are
    /// written.
    pub(super) async fn run(mut self, halt: CancellationToken) -> Result<(), Error> {
        while !halt.is_cancelled() {
            let next = self.share.begin();
            tokio::select! {
                biased;
                () = halt.cancelled() => {}
                Some(response) = self.share.requests.next() => self.apply(response)?,
                () = self.keeper.expiration() => self.keeper.expire(),
                () = self.keeper.held_shards.drained() => self.release_drained(),
                () = sleep_until(next) => {}
            }
        }
        self.leave().await
    }

    /// Applies a response to the operator.
    fn apply(&mut self, response: Response) -> Result<(), Error> {
        self.keeper.expire();
        let result = match response {
            Response::Member(exchange) => self.share.member_renewed(exchange),
            Response::Shard(shard, exchange) => self.apply_shard(shard, exchange),
            Response::Listing(listing) => match self.share.listed(listing) {
                Ok(plan) => {
                    self.settle(0..self.share.group.count());
                    self.follow(&plan);
                    Ok(())
                }
                Err(failure) => Err(failure),
            },
            Response::Forgotten => {
                self.share.is_forgetting = false;
                Ok(())
            }
        };
        match result {
            Ok(()) if self.share.is_failing() => {}
            Ok(()) => self.keeper.failures.none(),
            Err(Failure::Api(error)) => self.keeper.failures.add(&error),
            Err(Failure::DuplicateIdentity(error)) => return Err(error.into()),
        }
        self.log_shards();
        Ok(())
    }

    /// Applies the response to a request for a shard.
    fn apply_shard(&mut self, shard: u32, exchange: Exchange) -> Result<(), Failure> {
        let action = exchange.action;
        match (action, self.share.shard_written(shard, exchange)) {
            (Action::Release, Ok(())) => debug!("Shard {shard} is released."),
            (Action::Release, Err(error)) => {
                warn!("Shard {shard} is not released and will expire: {error}");
            }
            (Action::Renew | Action::Take, result) => {
                self.settle(shard..shard + 1);
                return result;
            }
        }
        Ok(())
    }

    /// Applies the state of these shards to the operator.
    fn settle(&mut self, shards: std::ops::Range<u32>) {
        let mut is_any_resumed = false;
        for shard in shards {
            if self.share.is_releasing(shard) {
                continue;
            }
            match self.share.group.valid_until(shard) {
                Some(until) => {
                    is_any_resumed |= self.keeper.renew(shard, until) == Renewed::Resumed;
                }
                None if self.keeper.held_shards.lose(shard) => {
                    self.share.list_soon();
                    let reason = self.share.loss_of(shard);
                    warn!("Shard {shard} is lost: {reason}.");
                }
                None => {}
            }
        }
        if is_any_resumed {
            self.keeper.log_resumed();
        }
    }

    /// Begins to take and to release shards.
    fn follow(&mut self, plan: &Plan) {
        if plan.mismatched != self.mismatched {
            self.mismatched.clone_from(&plan.mismatched);
            if !plan.mismatched.is_empty() {
                warn!(
                    "Waiting for replicas with another number of shards, or without shards: {}. \
                     Stop them, or configure the same number for all replicas.",
                    plan.mismatched.join(", ")
                );
            }
        }
        for shard in plan.release.iter().copied() {
            debug!(
                "Shard {shard} will be released to other replicas when its handlers have ended."
            );
            self.share.group.drain(shard);
            self.keeper.held_shards.drain(shard);
        }
        self.share.take(plan);
    }

    fn log_shards(&mut self) {
        let (held, count) = (self.keeper.held_shards.len(), self.share.group.count());
        if !self.share.is_taking() && self.logged != Some(held) {
            self.logged = Some(held);
            info!("This replica handles {held} of {count} shards now.");
        }
    }

    /// Begins to release the shards whose handlers have ended.
    fn release_drained(&mut self) {
        for shard in self.keeper.held_shards.take_drained() {
            self.share.release(shard);
        }
    }

    /// Renews the shards until all handlers have ended, releases them, and leaves the group.
    async fn leave(mut self) -> Result<(), Error> {
        self.share.begin_leaving();
        while !self.keeper.held_shards.is_empty() {
            self.leave_step().await?;
        }
        let leaving = async {
            while self.share.is_any_shard_busy() || !self.keeper.held_shards.is_empty() {
                self.leave_step().await?;
            }
            self.share.leave().await;
            Ok(())
        };
        if let Ok(left) = timeout(RELEASING, leaving).await {
            return left;
        }
        warn!("The Leases of this replica are not released in time and will expire.");
        Ok(())
    }

    /// Waits for the next event, and releases shards.
    async fn leave_step(&mut self) -> Result<(), Error> {
        self.keeper.held_shards.drain_all();
        self.release_drained();
        let next = self.share.begin();
        tokio::select! {
            biased;
            () = self.keeper.held_shards.drained() => {}
            Some(response) = self.share.requests.next() => self.apply(response)?,
            () = self.keeper.expiration() => self.keeper.expire(),
            () = sleep_until(next) => {}
        }
        Ok(())
    }
}
