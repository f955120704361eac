//! Sets of fields, and the operations of server-side apply on typed values.
//!
//! A [`Schema`] gives every part of an object a type; a [`FieldSet`] names parts of it. The
//! operations are [`collect`] (the fields of a value), [`compare`] (the fields in which two values
//! differ),
//! [`merge`] (one value on top of another), [`remove`] (a value without some fields),
//! [`reconcile`] (a set after its schema has changed) and [`sort`] (one order of lists without one). The module is pure and independent of
//! requests, managers and storage.

mod builtin;
mod check;
mod collect;
mod compare;
mod custom;
mod element;
mod items;
mod merge;
mod openapi;
mod order;
mod reconcile;
mod remove;
mod schema;
mod set;
#[cfg(test)]
mod tests;

pub use self::builtin::builtin;
pub use self::check::check;
pub use self::collect::collect;
pub use self::compare::{Comparison, compare};
pub use self::custom::custom;
pub use self::element::Element;
pub use self::merge::merge;
pub use self::order::sort;
pub use self::reconcile::reconcile;
pub use self::remove::{named, remove};
pub use self::schema::{Schema, Typed};
pub use self::set::FieldSet;
