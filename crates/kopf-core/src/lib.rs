//! The decisions of the framework, without effects: causes, diffs, filters, progress, outcomes,
//! stored formats.
//!
//! `#[doc(hidden)]` marks interfaces between the crates of Kopf, which can change with any release.
//! Operators use the re-exports of the crate `kopf`.

#![warn(clippy::too_many_lines)]

mod cluster;
mod coordination;
mod declaration;
mod handling;
mod persistence;
mod review;
mod values;

pub use self::cluster::{body, conditions, hierarchy, namespace, reference, resource, secrets};
#[doc(hidden)]
pub use self::cluster::{
    children, definition, essence, finalizer, keys, managers, patch, results, selector, sizes,
};
#[doc(hidden)]
pub use self::coordination::{leading, peering, sharding};
#[doc(hidden)]
pub use self::declaration::{
    background, filter, handler, indexing, matching, outcome, registry, wording,
};
pub use self::declaration::{cause, lifecycle};
pub use self::handling::settings;
#[doc(hidden)]
pub use self::handling::{object, rights};
#[doc(hidden)]
pub use self::persistence::settled;
pub use self::persistence::{diffbase, progress, storage};
pub use self::review::admission;
#[doc(hidden)]
pub use self::review::conversion;
pub use self::values::{diff, failure, field, key_order, trigger};
#[doc(hidden)]
pub use self::values::{
    encoding, equality, lenient, literal, moment, outline, panicking, repeats, sync, timestamp,
};
