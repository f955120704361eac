//! What a list, a watch or a webhook selects: by labels and by fields.
//!
//! Parsers and matchers only. They never look at the store, and a selector that was accepted
//! always has an answer for any object.

mod fields;
mod label_parser;
mod label_rules;
mod labels;
mod selectable;

pub(crate) use fields::FieldSelector;
pub(crate) use label_rules::{label_key_errors, label_value_errors};
pub(crate) use labels::LabelSelector;
pub(crate) use selectable::{field_value, supported_fields};
