//! The second layer of the sandbox: kinds, their types and schemas, validation, defaulting, patches,
//! selectors, expressions and sets of fields.
//!
//! Everything here is pure: values in, values or errors out. Nothing reads the store, and nothing
//! has a special case for a built-in kind, except for the recorded types.
//!
//! An internal crate of `kopf-sandbox`, without a stable interface.

#![warn(clippy::too_many_lines)]

#[doc(hidden)]
pub mod cel;
#[doc(hidden)]
pub mod crd;
#[doc(hidden)]
pub mod duration;
#[doc(hidden)]
pub mod field_error;
#[doc(hidden)]
pub mod fields;
#[doc(hidden)]
pub mod json_path;
#[doc(hidden)]
pub mod kind;
#[doc(hidden)]
pub mod object;
#[doc(hidden)]
pub mod patch;
#[doc(hidden)]
pub mod pattern_weight;
#[doc(hidden)]
pub mod protobuf;
#[doc(hidden)]
pub mod recorded;
#[doc(hidden)]
pub mod rights;
#[doc(hidden)]
pub mod schema;
#[doc(hidden)]
pub mod selectors;
#[doc(hidden)]
pub mod stack;
#[doc(hidden)]
pub mod typing;
