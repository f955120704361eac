//! The decisions of the framework, without effects: causes, diffs, filters, progress, outcomes,
//! stored formats.
//!
//! `#[doc(hidden)]` marks interfaces between the crates of Kopf, which can change with any release.
//! Operators use the re-exports of the crate `kopf`.

#![warn(clippy::too_many_lines)]

pub mod admission;
#[doc(hidden)]
pub mod background;
pub mod body;
pub mod cause;
#[doc(hidden)]
pub mod children;
pub mod conditions;
#[doc(hidden)]
pub mod conversion;
#[doc(hidden)]
pub mod definition;
pub mod diff;
pub mod diffbase;
#[doc(hidden)]
pub mod encoding;
#[doc(hidden)]
pub mod equality;
#[doc(hidden)]
pub mod essence;
pub mod failure;
pub mod field;
#[doc(hidden)]
pub mod filter;
#[doc(hidden)]
pub mod finalizer;
#[doc(hidden)]
pub mod handler;
pub mod hierarchy;
#[doc(hidden)]
pub mod indexing;
pub mod key_order;
#[doc(hidden)]
pub mod keys;
#[doc(hidden)]
pub mod leading;
#[doc(hidden)]
pub mod lenient;
pub mod lifecycle;
#[doc(hidden)]
pub mod literal;
#[doc(hidden)]
pub mod managers;
#[doc(hidden)]
pub mod matching;
#[doc(hidden)]
pub mod moment;
pub mod namespace;
#[doc(hidden)]
pub mod object;
#[doc(hidden)]
pub mod outcome;
#[doc(hidden)]
pub mod outline;
#[doc(hidden)]
pub mod panicking;
#[doc(hidden)]
pub mod patch;
#[doc(hidden)]
pub mod peering;
pub mod progress;
pub mod reference;
#[doc(hidden)]
pub mod registry;
#[doc(hidden)]
pub mod repeats;
pub mod resource;
#[doc(hidden)]
pub mod results;
#[doc(hidden)]
pub mod rights;
pub mod secrets;
#[doc(hidden)]
pub mod selector;
pub mod settings;
#[doc(hidden)]
pub mod settled;
#[doc(hidden)]
pub mod sharding;
#[doc(hidden)]
pub mod sizes;
pub mod storage;
#[doc(hidden)]
pub mod sync;
#[doc(hidden)]
pub mod timestamp;
pub mod trigger;
#[doc(hidden)]
pub mod wording;
