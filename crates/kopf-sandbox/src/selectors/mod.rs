//! Selectors of lists, watches and webhooks: by labels, fields and shards.
//!
//! Parsers and matchers only, independent of the store. Matching never fails.

mod fields;
mod label_parser;
mod labels;
mod selectable;
mod shards;

pub(crate) use fields::FieldSelector;
pub(crate) use labels::LabelSelector;
pub(crate) use selectable::field_value;
pub(crate) use shards::{Field as ShardField, ShardSelector};
