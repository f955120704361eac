//! The tenures of this process, published as its assignment.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::assignment::Assignments;
use super::tenure::Tenure;

/// The shards that this process holds, and those that it is releasing.
#[derive(Debug)]
pub(super) struct Holdings {
    held: BTreeMap<u32, Arc<Tenure>>,
    draining: BTreeMap<u32, Arc<Tenure>>,
    assignments: Assignments,
}

/// The effect of a renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewed {
    /// The shard was not held before.
    Gained,
    /// The shard is held for longer.
    Extended,
}

impl Holdings {
    pub(super) fn new(assignments: Assignments) -> Self {
        Self {
            held: BTreeMap::new(),
            draining: BTreeMap::new(),
            assignments,
        }
    }

    /// Notes that a shard is held until this moment.
    pub(super) fn renew(&mut self, shard: u32, end: Instant) -> Renewed {
        let known = self.held.get(&shard).or(self.draining.get(&shard));
        if let Some(tenure) = known {
            tenure.renew(end);
            return Renewed::Extended;
        }
        self.held.insert(shard, Arc::new(Tenure::until(end)));
        self.publish();
        Renewed::Gained
    }

    /// Notes that a shard is lost. Returns `false` if it was not held.
    pub(super) fn lose(&mut self, shard: u32) -> bool {
        let held = self.held.remove(&shard);
        let Some(tenure) = held.or_else(|| self.draining.remove(&shard)) else {
            return false;
        };
        tenure.lose();
        self.publish();
        true
    }

    /// Begins to release a shard: its running handlers may end.
    pub(super) fn drain(&mut self, shard: u32) {
        if let Some(tenure) = self.held.remove(&shard) {
            tenure.end();
            self.draining.insert(shard, tenure);
            self.publish();
        }
    }

    /// Begins to release all shards because the operator exits. Its streams end by themselves.
    pub(super) fn drain_all(&mut self) {
        for (shard, tenure) in std::mem::take(&mut self.held) {
            tenure.end();
            self.draining.insert(shard, tenure);
        }
    }

    /// Takes the shards whose handlers have ended.
    pub(super) fn take_drained(&mut self) -> Vec<u32> {
        let is_drained = |_: &u32, tenure: &mut Arc<Tenure>| tenure.is_drained();
        let drained = self.draining.extract_if(.., is_drained);
        drained.map(|(shard, _)| shard).collect()
    }

    /// Waits until the handlers of a shard have ended that is being released; forever if there is
    /// none. Cancel-safe.
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

    /// Returns `true` if nothing is held, and nothing is being released.
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

/// Nothing may go on without renewals.
impl Drop for Holdings {
    fn drop(&mut self) {
        for tenure in self.held.values().chain(self.draining.values()) {
            tenure.lose();
        }
    }
}
