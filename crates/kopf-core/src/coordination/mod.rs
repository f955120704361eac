//! Operators among each other: Leases, shards, peerings.

pub mod leading;
pub mod peering;
pub mod sharding;
