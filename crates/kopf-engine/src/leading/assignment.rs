//! The shards that this process holds. Without replicas, there is one shard, which is always held.
//! With leader election, there is one shard, held by the leader.

use std::collections::BTreeMap;
use std::sync::Arc;

use kopf_core::sharding;
use tokio::sync::watch;

use super::tenure::{Pass, Tenure};
use crate::identity::Identity;

/// The shards that are currently held. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Assignment(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    number: u64,
    /// The number of all shards, held or not.
    count: u32,
    held: BTreeMap<u32, Arc<Tenure>>,
}

impl Assignment {
    fn tenure(&self, identity: &Identity) -> Option<&Arc<Tenure>> {
        let Inner { count, held, .. } = &*self.0;
        let shard = match count {
            0 | 1 => 0,
            count => sharding::shard_of(identity.hash(), *count),
        };
        held.get(&shard)
    }

    /// Returns a pass for an object; `None` if another replica handles it.
    pub(crate) fn enter(&self, identity: &Identity) -> Option<Pass> {
        self.tenure(identity)?.enter()
    }

    /// Returns the number of the tenure of an object; zero if another replica handles it.
    pub(crate) fn tenure_number(&self, identity: &Identity) -> u32 {
        let tenure = self.tenure(identity).filter(|tenure| tenure.admits());
        tenure.map_or(0, |tenure| tenure.number())
    }

    /// Returns `true` if any tenure is not in an earlier assignment. Its objects must be listed.
    pub(crate) fn gains_since(&self, earlier: &Self) -> bool {
        let is_known = |(shard, tenure): (&u32, &Arc<Tenure>)| {
            let before = earlier.0.held.get(shard);
            before.is_some_and(|before| Arc::ptr_eq(before, tenure))
        };
        !self.0.held.iter().all(is_known)
    }

    /// Returns the number of held shards.
    pub(crate) fn len(&self) -> usize {
        self.0.held.len()
    }

    /// Returns `true` if the first shard is held. Its holder acts for the whole group.
    pub(crate) fn is_first(&self) -> bool {
        self.0.held.contains_key(&0)
    }

    /// Returns the shard selector of the held shards; `None` if all objects are needed.
    pub(crate) fn selector(&self) -> Option<String> {
        let Inner { count, held, .. } = &*self.0;
        let is_part = !held.is_empty() && u32::try_from(held.len()).is_ok_and(|held| held < *count);
        is_part.then(|| sharding::selector(held.keys().copied(), *count))
    }
}

/// The current assignment of an operator, published again when tenures are suspended. Cheap to clone:
/// clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Assignments(Arc<watch::Sender<Assignment>>);

impl Assignments {
    /// Returns the assignment of an operator without replicas.
    pub(crate) fn everything() -> Self {
        Self::new(1, [(0, Arc::new(Tenure::endless()))].into())
    }

    /// Returns the assignment of a replica that holds none of these shards yet.
    pub(crate) fn none_of(count: u32) -> Self {
        Self::new(count, BTreeMap::new())
    }

    fn new(count: u32, held: BTreeMap<u32, Arc<Tenure>>) -> Self {
        let number = 0;
        let first = Assignment(Arc::new(Inner {
            number,
            count,
            held,
        }));
        Self(Arc::new(watch::Sender::new(first)))
    }

    /// Returns the current assignment.
    pub(crate) fn current(&self) -> Assignment {
        self.0.borrow().clone()
    }

    /// Replaces the held shards.
    pub(crate) fn publish(&self, held: BTreeMap<u32, Arc<Tenure>>) {
        self.0.send_modify(|assignment| {
            let Inner { number, count, .. } = *assignment.0;
            *assignment = Assignment(Arc::new(Inner {
                number: number + 1,
                count,
                held,
            }));
        });
    }

    /// Waits for an assignment other than this one. Cancel-safe.
    pub(crate) async fn changed_since(&self, known: &Assignment) {
        let mut changes = self.0.subscribe();
        let is_other = |current: &Assignment| current.0.number != known.0.number;
        // The sender is owned by `self`, so the channel cannot be closed.
        let _ = changes.wait_for(is_other).await;
    }

    /// Waits for a pass of the first shard, whose holder acts for the whole group. Cancel-safe.
    pub(crate) async fn first(&self) -> Pass {
        loop {
            let current = self.current();
            if let Some(pass) = current.0.held.get(&0).and_then(Tenure::enter) {
                return pass;
            }
            self.changed_since(&current).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenure() -> Arc<Tenure> {
        Arc::new(Tenure::endless())
    }

    fn identity(number: u32) -> Identity {
        // The hash mixes the last characters little, so the numbers are spread.
        let spread = number.wrapping_mul(2_654_435_761);
        let uid = format!("{spread:08x}-c6c0-4710-8941-{number:012x}");
        Identity::new(Some(&uid), None, None)
    }

    #[tokio::test]
    async fn objects_belong_to_the_shards_of_their_uids() {
        let shared = Assignments::none_of(2);
        assert!(shared.current().enter(&identity(1)).is_none());
        shared.publish([(0, tenure()), (1, tenure())].into());
        let all = shared.current();
        assert!((0..100).all(|number| all.enter(&identity(number)).is_some()));
        assert_eq!(all.selector(), None);
        shared.publish([(1, tenure())].into());
        let half = shared.current();
        let own = (0..1000).filter(|number| half.enter(&identity(*number)).is_some());
        assert!((300..700).contains(&own.count()));
        assert!(half.selector().unwrap().contains("'0x8000000000000000'"));
    }

    #[tokio::test]
    async fn only_new_tenures_are_gains() {
        let shared = Assignments::none_of(2);
        let (none, one) = (shared.current(), tenure());
        shared.publish([(0, Arc::clone(&one))].into());
        let first = shared.current();
        assert!(first.gains_since(&none));
        assert!(!none.gains_since(&first));
        shared.publish([(0, one), (1, tenure())].into());
        assert!(shared.current().gains_since(&first));
        shared.publish([(0, tenure())].into());
        assert!(
            shared.current().gains_since(&first),
            "another tenure of the same shard"
        );
    }

    #[tokio::test]
    async fn waiters_are_notified_of_changes() {
        let shared = Assignments::none_of(1);
        let before = shared.current();
        let changed = async { tokio::join!(shared.changed_since(&before), shared.first()).1 };
        let (pass, ()) = tokio::join!(changed, async { shared.publish([(0, tenure())].into()) });
        assert!(pass.begin().await);
    }
}
