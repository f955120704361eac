//! Managers of fields: `metadata.managedFields` and the rules by which it changes.
//!
//! [`Tracker`] is used by every write. An update records the fields that it has changed; an apply
//! merges a configuration, removes what its manager no longer lists, and conflicts with the fields of
//! others. The sets themselves are computed by [`fields`](crate::fields).

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

pub(crate) use self::conflict::Conflict;
pub(crate) use self::conversions::Conversions;
pub(crate) use self::managed::{keep_reset, keep_times, name_of_agent};
pub(crate) use self::tracker::{Refusal, Tracker};
