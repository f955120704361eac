//! The shard selector of an observer, and who applies it.
//!
//! Servers without `ShardedListAndWatch` ignore the selector. Servers with it confirm it by the `shardInfo`
//! of lists, except for custom resources (Kubernetes 1.36). Without a confirmation, objects of other shards
//! are left out by the observer: this costs a hash of the uid, and no decoding.

use kopf_core::sharding::Ranges;

use crate::item::Item;

/// The state of the shard selector.
#[derive(Debug)]
pub(super) enum Sharding {
    /// All objects are observed.
    None,
    /// The server has not confirmed the selector.
    Unconfirmed(Ranges),
    /// The server applies the selector.
    Confirmed(Ranges),
}

impl Sharding {
    /// Creates the state for a selector; empty for all objects.
    pub(super) fn new(selector: &str) -> Self {
        Ranges::parse(selector).map_or(Self::None, Self::Unconfirmed)
    }

    /// Notes whether the last list was confirmed. The server can be replaced by another one.
    pub(super) fn confirm(&mut self, is_confirmed: bool) {
        *self = match (std::mem::replace(self, Self::None), is_confirmed) {
            (Self::None, _) => Self::None,
            (Self::Unconfirmed(ranges) | Self::Confirmed(ranges), true) => Self::Confirmed(ranges),
            (Self::Unconfirmed(ranges) | Self::Confirmed(ranges), false) => {
                Self::Unconfirmed(ranges)
            }
        };
    }

    /// Returns `false` if the object is in another shard. Objects without a uid are never left out.
    pub(super) fn admits(&self, item: &Item) -> bool {
        match (self, &item.key.uid) {
            (Self::Unconfirmed(ranges), Some(uid)) => {
                ranges.contains(uid, item.key.namespace.as_deref())
            }
            _ => true,
        }
    }
}
