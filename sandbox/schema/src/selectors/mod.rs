//! Selectors of lists, watches and webhooks: by labels, fields and shards.
//!
//! Parsers and matchers only, independent of the store. Matching never fails.

mod fields;
mod label_parser;
mod labels;
mod shards;

pub use fields::FieldSelector;
pub use labels::LabelSelector;
pub use shards::{Field as ShardField, ShardSelector};
