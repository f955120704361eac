//! Field managers: `metadata.managedFields` and the rules of its changes.
//!
//! Every write uses a [`Tracker`]. An update records the fields that it changes. An apply merges a
//! configuration, removes fields that its manager no longer lists, and conflicts with the fields of
//! other managers. The sets are computed by [`fields`](kopf_sandbox_schema::fields).

mod cap;
mod conflict;
mod conversions;
mod last_applied;
mod managed;
mod pruning;
mod reset;
#[cfg(test)]
mod tests;
mod tracker;

pub use self::conflict::Conflict;
pub use self::conversions::Conversions;
pub use self::managed::{keep_reset, keep_times, name_of_agent};
pub use self::tracker::{Rejection, Tracker};
