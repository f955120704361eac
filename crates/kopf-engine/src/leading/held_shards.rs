//! The tenures of this process, published as its assignment.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::assignment::Assignments;
use super::tenure::Tenure;

/// The shards that this process holds or releases.
#[derive(Debug)]
pub(super) struct HeldShards {
    shards: BTreeMap<u32, Holding>,
    assignments: Assignments,
}

/// One held shard.
#[derive(Debug)]
struct Holding {
    times: Times,
    stage: Stage,
    /// Interrupted tenures whose handlers have not ended yet. Their results are written when the Lease
    /// is renewed.
    former: Vec<Arc<Tenure>>,
}

/// The times of a held shard, unless it is renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Times {
    /// No handlers start and nothing is written after that.
    pub(super) valid_until: Instant,
    /// Daemons are stopped then: other replicas may take the Lease soon.
    pub(super) suspend_at: Instant,
    /// The objects are left then, and must be listed again.
    pub(super) stop_at: Instant,
}

#[derive(Debug)]
enum Stage {
    /// Handlers may start.
    Serving(Arc<Tenure>),
    /// The Lease is not renewed in time: handlers wait.
    Overdue(Arc<Tenure>),
    /// The Lease is not renewed for so long that other replicas may take it soon: daemons are stopped.
    Suspended(Arc<Tenure>),
    /// The Lease is not renewed for so long that the objects are left.
    Interrupted,
    /// The shard is released when its handlers have ended.
    Draining(Arc<Tenure>),
}

/// The effect of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewed {
    /// The shard was not held before.
    Gained,
    /// The shard was held.
    Extended,
    /// The shard was held, but not renewed in time.
    Resumed,
}

/// The shards that were not renewed in time, since the last call of [`HeldShards::expire`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expired {
    /// No handlers start any more.
    pub(super) overdue: Vec<u32>,
    /// Daemons are stopped.
    pub(super) suspended: Vec<u32>,
    /// The objects are left.
    pub(super) interrupted: Vec<u32>,
}

impl HeldShards {
    pub(super) fn new(assignments: Assignments) -> Self {
        Self {
            shards: BTreeMap::new(),
            assignments,
        }
    }

    /// Records that a shard is held until these times, which may have passed already. An interrupted
    /// tenure is not continued: its objects must be listed again.
    pub(super) fn renew(&mut self, shard: u32, times: Times) -> Renewed {
        let is_valid = Instant::now() < times.valid_until;
        let Some(holding) = self.shards.get_mut(&shard) else {
            let holding = Holding {
                times,
                stage: Stage::Serving(Arc::new(Tenure::until(times.valid_until))),
                former: Vec::new(),
            };
            self.shards.insert(shard, holding);
            self.publish();
            return Renewed::Gained;
        };
        holding.times = times;
        holding.former.retain(|tenure| !tenure.is_drained());
        for tenure in holding.stage.tenure().into_iter().chain(&holding.former) {
            tenure.renew(times.valid_until);
        }
        match &holding.stage {
            Stage::Overdue(tenure) if is_valid => {
                holding.stage = Stage::Serving(Arc::clone(tenure));
                Renewed::Resumed
            }
            Stage::Suspended(tenure) if is_valid => {
                tenure.resume();
                holding.stage = Stage::Serving(Arc::clone(tenure));
                Renewed::Resumed
            }
            Stage::Interrupted if is_valid => {
                let tenure = Arc::new(Tenure::until(times.valid_until));
                holding.stage = Stage::Serving(tenure);
                self.publish();
                Renewed::Resumed
            }
            _ => Renewed::Extended,
        }
    }

    /// Applies the times of the shards.
    pub(super) fn expire(&mut self) -> Expired {
        let now = Instant::now();
        let mut expired = Expired::default();
        for (shard, holding) in &mut self.shards {
            if let Stage::Serving(tenure) = &holding.stage
                && holding.times.valid_until <= now
            {
                holding.stage = Stage::Overdue(Arc::clone(tenure));
                expired.overdue.push(*shard);
            }
            if let Stage::Overdue(tenure) = &holding.stage
                && holding.times.suspend_at <= now
            {
                tenure.suspend();
                holding.stage = Stage::Suspended(Arc::clone(tenure));
                expired.suspended.push(*shard);
            }
            if let Stage::Suspended(tenure) = &holding.stage
                && holding.times.stop_at <= now
            {
                tenure.end();
                holding.former.push(Arc::clone(tenure));
                holding.stage = Stage::Interrupted;
                expired.interrupted.push(*shard);
            }
        }
        if !expired.suspended.is_empty() || !expired.interrupted.is_empty() {
            self.publish();
        }
        expired
    }

    /// Returns the time of the next change by [`expire`](Self::expire).
    pub(super) fn next_expiration(&self) -> Option<Instant> {
        let times = self.shards.values().filter_map(|holding| {
            let Times {
                valid_until,
                suspend_at,
                stop_at,
            } = holding.times;
            match holding.stage {
                Stage::Serving(_) => Some(valid_until),
                Stage::Overdue(_) => Some(suspend_at),
                Stage::Suspended(_) => Some(stop_at),
                Stage::Interrupted | Stage::Draining(_) => None,
            }
        });
        times.min()
    }

    /// Records that a shard is lost. Returns `false` if it was not held.
    pub(super) fn lose(&mut self, shard: u32) -> bool {
        let Some(holding) = self.shards.remove(&shard) else {
            return false;
        };
        holding.lose();
        self.publish();
        true
    }

    /// Begins to release a shard. Its running handlers may finish.
    pub(super) fn drain(&mut self, shard: u32) {
        if let Some(holding) = self.shards.get_mut(&shard) {
            holding.drain();
            self.publish();
        }
    }

    /// Begins to release all shards because the operator exits. Its streams stop by themselves.
    pub(super) fn drain_all(&mut self) {
        for holding in self.shards.values_mut() {
            holding.drain();
        }
    }

    /// Takes the shards whose handlers have ended.
    pub(super) fn take_drained(&mut self) -> Vec<u32> {
        let shards = self.shards.iter();
        let drained = shards.filter(|(_, holding)| holding.is_drained());
        let drained: Vec<u32> = drained.map(|(shard, _)| *shard).collect();
        for shard in &drained {
            self.shards.remove(shard);
        }
        drained
    }

    /// Waits until the handlers of any shard in release have ended; forever if there is none.
    /// Cancel-safe.
    pub(super) async fn drained(&self) {
        let draining = self.shards.values();
        let draining = draining.filter(|holding| matches!(holding.stage, Stage::Draining(_)));
        let waits: Vec<_> = draining
            .map(|holding| Box::pin(holding.drained()))
            .collect();
        if waits.is_empty() {
            return std::future::pending().await;
        }
        futures::future::select_all(waits).await;
    }

    /// Returns `true` if no shard is held or being released.
    pub(super) fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// Returns the number of held shards.
    pub(super) fn len(&self) -> usize {
        let shards = self.shards.values();
        shards
            .filter(|holding| !matches!(holding.stage, Stage::Draining(_)))
            .count()
    }

    fn publish(&self) {
        let held = self
            .shards
            .iter()
            .filter_map(|(shard, holding)| match &holding.stage {
                Stage::Serving(tenure) | Stage::Overdue(tenure) | Stage::Suspended(tenure) => {
                    Some((*shard, Arc::clone(tenure)))
                }
                Stage::Interrupted | Stage::Draining(_) => None,
            });
        self.assignments.publish(held.collect());
    }
}

impl Holding {
    fn lose(&self) {
        for tenure in self.stage.tenure().into_iter().chain(&self.former) {
            tenure.lose();
        }
    }

    fn drain(&mut self) {
        let tenure = match &self.stage {
            Stage::Serving(tenure) | Stage::Overdue(tenure) | Stage::Suspended(tenure) => {
                Arc::clone(tenure)
            }
            Stage::Interrupted => Arc::new(Tenure::until(self.times.valid_until)),
            Stage::Draining(_) => return,
        };
        tenure.end();
        self.stage = Stage::Draining(tenure);
    }

    fn is_drained(&self) -> bool {
        let mut former = self.former.iter();
        matches!(&self.stage, Stage::Draining(tenure) if tenure.is_drained())
            && former.all(|tenure| tenure.is_drained())
    }

    async fn drained(&self) {
        for tenure in self.stage.tenure().into_iter().chain(&self.former) {
            tenure.drained().await;
        }
    }
}

impl Stage {
    fn tenure(&self) -> Option<&Arc<Tenure>> {
        match self {
            Self::Serving(tenure)
            | Self::Overdue(tenure)
            | Self::Suspended(tenure)
            | Self::Draining(tenure) => Some(tenure),
            Self::Interrupted => None,
        }
    }
}

/// All tenures end, because they cannot be renewed any more.
impl Drop for HeldShards {
    fn drop(&mut self) {
        for holding in self.shards.values() {
            holding.lose();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;
    use tokio::time::advance;

    use super::*;

    fn soon() -> Times {
        let now = Instant::now();
        Times {
            valid_until: now + Duration::from_secs(10),
            suspend_at: now + Duration::from_secs(12),
            stop_at: now + Duration::from_secs(30),
        }
    }

    async fn after(seconds: u64, held_shards: &mut HeldShards) -> Expired {
        advance(Duration::from_secs(seconds)).await;
        held_shards.expire()
    }

    #[tokio::test(start_paused = true)]
    async fn late_renewals_continue_the_tenure() {
        let assignments = Assignments::none_of(1);
        let mut held_shards = HeldShards::new(assignments.clone());
        assert_eq!(held_shards.renew(0, soon()), Renewed::Gained);
        let pass = assignments.first().await;
        assert_eq!(after(9, &mut held_shards).await, Expired::default());
        assert_eq!(held_shards.renew(0, soon()), Renewed::Extended);
        assert_eq!(after(11, &mut held_shards).await.overdue, [0]);
        assert_eq!(pass.begin().now_or_never(), None);
        assert_eq!(held_shards.renew(0, soon()), Renewed::Resumed);
        assert_eq!(pass.begin().now_or_never(), Some(true));
    }

    #[tokio::test(start_paused = true)]
    async fn suspended_tenures_continue_when_they_are_renewed() {
        let assignments = Assignments::none_of(1);
        let mut held_shards = HeldShards::new(assignments.clone());
        held_shards.renew(0, soon());
        let (pass, before) = (assignments.first().await, assignments.current());
        let expired = after(12, &mut held_shards).await;
        assert_eq!((expired.overdue, expired.suspended), (vec![0], vec![0]));
        assert!(pass.tenure().is_suspended() && !pass.is_ending());
        assert_eq!(after(17, &mut held_shards).await, Expired::default());
        assert_eq!(held_shards.renew(0, soon()), Renewed::Resumed);
        assert!(!pass.tenure().is_suspended() && pass.begin().await);
        let current = assignments.current();
        assert!(!current.gains_since(&before), "nothing is listed again");
    }

    #[tokio::test(start_paused = true)]
    async fn interrupted_tenures_are_replaced_and_may_write_their_results() {
        let assignments = Assignments::none_of(1);
        let mut held_shards = HeldShards::new(assignments.clone());
        held_shards.renew(0, soon());
        let pass = assignments.first().await;
        let expired = after(30, &mut held_shards).await;
        assert_eq!((expired.overdue, expired.interrupted), (vec![0], vec![0]));
        assert!(pass.is_ending() && !pass.is_lost());
        assert_eq!(assignments.current().len(), 0);
        assert_eq!(held_shards.renew(0, soon()), Renewed::Resumed);
        assert!(!pass.begin().await && pass.write().await);
        assert_ne!(assignments.first().await.number(), pass.number());
        held_shards.drain_all();
        assert_eq!(
            held_shards.take_drained(),
            Vec::<u32>::new(),
            "of the former one"
        );
        drop(pass);
        assert_eq!(held_shards.take_drained(), [0]);
    }

    #[tokio::test(start_paused = true)]
    async fn outdated_renewals_do_not_resume() {
        let mut held_shards = HeldShards::new(Assignments::none_of(1));
        held_shards.renew(0, soon());
        let outdated = soon();
        assert_eq!(after(10, &mut held_shards).await.overdue, [0]);
        assert_eq!(held_shards.renew(0, outdated), Renewed::Extended);
        assert!(held_shards.next_expiration() == Some(outdated.suspend_at));
    }

    #[tokio::test(start_paused = true)]
    async fn shards_are_released_when_their_passes_are_dropped() {
        let assignments = Assignments::none_of(1);
        let mut held_shards = HeldShards::new(assignments.clone());
        held_shards.renew(0, soon());
        let pass = assignments.first().await;
        held_shards.drain(0);
        assert_eq!(held_shards.take_drained(), Vec::<u32>::new());
        tokio::join!(held_shards.drained(), async { drop(pass) });
        assert_eq!(held_shards.take_drained(), [0]);
        assert!(held_shards.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn dropping_the_holdings_ends_all_tenures() {
        let assignments = Assignments::none_of(1);
        let mut held_shards = HeldShards::new(assignments.clone());
        held_shards.renew(0, soon());
        let pass = assignments.first().await;
        drop(held_shards);
        assert!(!pass.write().await && pass.is_lost());
    }
}
