//! The other replicas of the group, as far as their Leases show.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use tokio::sync::watch;

/// Number of remembered identities of former replicas; the oldest are forgotten first.
const MAX_FORMER: usize = 256;

/// The other replicas of the group. Cheap to clone: clones share the state.
#[derive(Clone, Debug)]
pub(crate) struct Members(Arc<watch::Sender<Census>>);

/// The last listing of the group's Leases.
#[derive(Debug, Default)]
pub(crate) struct Census {
    /// The live replicas; `None` if there was no listing yet.
    live: Option<BTreeSet<String>>,
    /// Replicas that were alive once.
    former: VecDeque<String>,
}

impl Default for Members {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Census::default())))
    }
}

impl Members {
    /// Replaces the identities of the live replicas, without this one. Subscribers are notified of
    /// changes.
    pub(super) fn publish<'a>(&self, replicas: impl Iterator<Item = &'a str>) {
        let live: BTreeSet<String> = replicas.map(operator_of).map(str::to_owned).collect();
        self.0.send_if_modified(|census| {
            if census.live.as_ref() == Some(&live) {
                return false;
            }
            let former = census.live.take().into_iter().flatten();
            for identity in former.filter(|identity| !live.contains(identity)) {
                if !census.former.contains(&identity) {
                    census.former.push_back(identity);
                }
            }
            census.former.retain(|identity| !live.contains(identity));
            while census.former.len() > MAX_FORMER {
                census.former.pop_front();
            }
            census.live = Some(live);
            true
        });
    }

    /// Returns `true` if the replica of this operator was alive, and is not any more.
    pub(crate) fn is_gone(&self, operator: &str) -> bool {
        self.0.borrow().former.iter().any(|one| one == operator)
    }

    /// Returns `true` if there are no other replicas; `false` if that is not known.
    pub(crate) fn is_alone(&self) -> bool {
        self.0
            .borrow()
            .live
            .as_ref()
            .is_some_and(BTreeSet::is_empty)
    }

    /// Returns a receiver that is notified when replicas join or leave.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Census> {
        self.0.subscribe()
    }
}

/// Returns the identity of the operator in that of a replica.
fn operator_of(replica: &str) -> &str {
    replica
        .rsplit_once('_')
        .map_or(replica, |(operator, _)| operator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_gone_when_they_were_alive_before() {
        let members = Members::default();
        assert!(!members.is_alone(), "nothing is known yet");
        members.publish(["one_a_f00", "two_f01"].into_iter());
        let mut changes = members.subscribe();
        members.publish(["one_a_f00", "two_f01"].into_iter());
        assert!(!changes.has_changed().unwrap());
        members.publish(["two_f01"].into_iter());
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        assert!(members.is_gone("one_a") && !members.is_gone("two"));
        assert!(!members.is_gone("unseen") && !members.is_alone());
        members.publish(["one_a_f02"].into_iter());
        assert!(!members.is_gone("one_a") && members.is_gone("two"));
        members.publish([].into_iter());
        assert!(members.is_alone());
    }
}
