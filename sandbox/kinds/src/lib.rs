//! The third layer of the sandbox: the built-in kinds and their rules beyond types.
//!
//! Names, metadata, generations, conversions between versions, validation, field managers, columns
//! of tables, selectable fields, and the decisions of built-in admission plugins. Everything is
//! pure: the caller reads the objects that a rule needs.
//!
//! An internal crate of `kopf-sandbox`, without a stable interface.

#![warn(clippy::too_many_lines)]

#[doc(hidden)]
pub mod builtin;
#[doc(hidden)]
pub mod conform;
#[doc(hidden)]
pub mod conversion;
#[doc(hidden)]
pub mod managers;
#[doc(hidden)]
pub mod metadata;
#[doc(hidden)]
pub mod plugins;
#[doc(hidden)]
pub mod rules;
#[doc(hidden)]
pub mod selectable;
#[doc(hidden)]
pub mod services;
#[doc(hidden)]
pub mod strategy;
#[doc(hidden)]
pub mod table;
