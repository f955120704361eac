//! Decides everything and does nothing: causes, diffs, filters, progress, outcomes, stored formats.

#![warn(clippy::too_many_lines)]

pub mod admission;
pub mod background;
pub mod body;
pub mod cause;
pub mod children;
pub mod conditions;
pub mod conversion;
pub mod definition;
pub mod diff;
pub mod diffbase;
pub mod encoding;
pub mod equality;
pub mod essence;
pub mod field;
pub mod filter;
pub mod finalizer;
pub mod handler;
pub mod hierarchy;
pub mod indexing;
pub mod keys;
pub mod leading;
pub mod lenient;
pub mod lifecycle;
pub mod literal;
pub mod namespace;
pub mod object;
pub mod outcome;
pub mod outline;
pub mod panicking;
pub mod patch;
pub mod peering;
pub mod progress;
pub mod reference;
pub mod registry;
pub mod resource;
pub mod results;
pub mod rights;
pub mod selector;
pub mod settings;
pub mod settled;
pub mod sharding;
pub mod storage;
pub mod timestamp;
pub mod wording;
