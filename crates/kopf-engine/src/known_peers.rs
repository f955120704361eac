//! Identities that were seen in the peerings of an operator.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;

/// Number of remembered identities; the oldest are forgotten first. Peers that are replaced one
/// after another, as pods are, get a new identity each.
const MAX_IDENTITIES: usize = 256;

/// Identities of peers, alive or dead. Cheap to clone: clones share the identities.
#[derive(Clone, Debug)]
pub(crate) struct KnownPeers(Arc<watch::Sender<VecDeque<String>>>);

impl Default for KnownPeers {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(VecDeque::new())))
    }
}

impl KnownPeers {
    /// Adds identities. Subscribers are notified if any of them is new.
    pub(super) fn add<'a>(&self, identities: impl IntoIterator<Item = &'a str>) {
        self.0.send_if_modified(|known| {
            let mut is_modified = false;
            for identity in identities {
                if !known.iter().any(|other| other == identity) {
                    known.push_back(identity.to_owned());
                    is_modified = true;
                }
            }
            while known.len() > MAX_IDENTITIES {
                known.pop_front();
            }
            is_modified
        });
    }

    /// Returns `true` if the identity was seen.
    pub(crate) fn has(&self, identity: &str) -> bool {
        self.0.borrow().iter().any(|known| known == identity)
    }

    /// Returns a receiver that is notified of new identities.
    pub(crate) fn subscribe(&self) -> watch::Receiver<VecDeque<String>> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_remembered_up_to_a_limit() {
        let peers = KnownPeers::default();
        let mut changes = peers.subscribe();
        peers.add(["a", "b"]);
        assert!(changes.has_changed().unwrap());
        changes.mark_unchanged();
        peers.add(["a"]);
        assert!(!changes.has_changed().unwrap());
        let many: Vec<String> = (0..MAX_IDENTITIES - 1)
            .map(|number| number.to_string())
            .collect();
        peers.add(many.iter().map(String::as_str));
        assert!(!peers.has("a") && peers.has("b") && peers.has("0"));
    }
}
