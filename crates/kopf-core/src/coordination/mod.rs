//! Operators among each other: Leases, shards, peerings.

#[doc(hidden)]
pub mod leading;
#[doc(hidden)]
pub mod peering;
#[doc(hidden)]
pub mod sharding;
