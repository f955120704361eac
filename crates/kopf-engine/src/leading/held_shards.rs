//! The tenures of this process, published as its assignment.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::assignment::Assignments;
use super::tenure::Tenure;

/// The shards that this process holds or releases.
#[derive(Debug)]
pub(super) struct HeldShards {
    held: BTreeMap<u32, Arc<Tenure>>,
    draining: BTreeMap<u32, Arc<Tenure>>,
    assignments: Assignments,
}

/// The effect of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewed {
    /// The shard was not held before.
    Gained,
    /// The shard was already held.
    Extended,
}

impl HeldShards {
    pub(super) fn new(assignments: Assignments) -> Self {
        Self {
            held: BTreeMap::new(),
            draining: BTreeMap::new(),
            assignments,
        }
    }

    /// Records that a shard is held until `end`. An expired tenure is not continued: events may
    /// have been dropped meanwhile, so the objects must be listed again.
    pub(super) fn renew(&mut self, shard: u32, end: Instant) -> Renewed {
        if let Some(tenure) = self.draining.get(&shard) {
            if tenure.is_valid() {
                tenure.renew(end);
            } else {
                // The former tenure has no passes to wait for.
                tenure.lose();
                let ended = Arc::new(Tenure::until(end));
                ended.end();
                self.draining.insert(shard, ended);
            }
            return Renewed::Extended;
        }
        match self.held.get(&shard) {
            Some(tenure) if tenure.is_valid() => {
                tenure.renew(end);
                return Renewed::Extended;
            }
            Some(tenure) => tenure.lose(),
            None => {}
        }
        self.held.insert(shard, Arc::new(Tenure::until(end)));
        self.publish();
        Renewed::Gained
    }

    /// Records that a shard is lost. Returns `false` if it was not held.
    pub(super) fn lose(&mut self, shard: u32) -> bool {
        let held = self.held.remove(&shard);
        let Some(tenure) = held.or_else(|| self.draining.remove(&shard)) else {
            return false;
        };
        tenure.lose();
        self.publish();
        true
    }

    /// Begins to release a shard. Its running handlers may finish.
    pub(super) fn drain(&mut self, shard: u32) {
        if let Some(tenure) = self.held.remove(&shard) {
            tenure.end();
            self.draining.insert(shard, tenure);
            self.publish();
        }
    }

    /// Begins to release all shards because the operator exits. Its streams stop by themselves.
    pub(super) fn drain_all(&mut self) {
        for (shard, tenure) in std::mem::take(&mut self.held) {
            tenure.end();
            self.draining.insert(shard, tenure);
        }
    }

    /// Takes the shards whose handlers have ended.
    pub(super) fn take_drained(&mut self) -> Vec<u32> {
        let mut drained = Vec::new();
        self.draining.retain(|shard, tenure| {
            // Read once, because the value can change concurrently.
            let is_drained = tenure.is_drained();
            if is_drained {
                drained.push(*shard);
            }
            !is_drained
        });
        drained
    }

    /// Waits until the handlers of any shard in release have ended; forever if there is none.
    /// Cancel-safe.
    pub(super) async fn drained(&self) {
        if self.draining.is_empty() {
            return std::future::pending().await;
        }
        let waits = self
            .draining
            .values()
            .map(|tenure| Box::pin(tenure.drained()));
        futures::future::select_all(waits).await;
    }

    /// Returns `true` if no shard is held or being released.
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.draining.is_empty()
    }

    /// Returns the number of held shards.
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    fn publish(&self) {
        self.assignments.publish(self.held.clone());
    }
}

/// All tenures end, because they cannot be renewed any more.
impl Drop for HeldShards {
    fn drop(&mut self) {
        for tenure in self.held.values().chain(self.draining.values()) {
            tenure.lose();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(10)
    }

    #[tokio::test(start_paused = true)]
    async fn an_expired_tenure_is_not_continued() {
        let assignments = Assignments::none_of(1);
        let mut held_shards = HeldShards::new(assignments.clone());
        assert_eq!(held_shards.renew(0, soon()), Renewed::Gained);
        let pass = assignments.first().await;
        advance(Duration::from_secs(9)).await;
        assert_eq!(held_shards.renew(0, soon()), Renewed::Extended);
        assert!(pass.may_begin());
        advance(Duration::from_secs(11)).await;
        assert_eq!(held_shards.renew(0, soon()), Renewed::Gained);
        assert!(!pass.may_begin(), "the pass belongs to the former tenure");
        assert!(assignments.first().await.may_begin());
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
        assert!(!pass.may_write());
    }
}
