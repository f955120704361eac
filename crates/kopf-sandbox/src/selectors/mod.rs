//! What a list, a watch or a webhook selects: by labels, by fields and by shards.
//!
//! Parsers and matchers only. They never look at the store, and a selector that was accepted
//! always has an answer for any object.

mod fields;
mod label_parser;
mod labels;
mod selectable;
mod shards;

pub(crate) use fields::FieldSelector;
pub(crate) use labels::LabelSelector;
pub(crate) use selectable::field_value;
pub(crate) use shards::{Field as ShardField, ShardSelector};
