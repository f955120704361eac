//! Sets of fields, and the operations of server-side apply on typed values.
//!
//! A [`Schema`] gives every part of an object a type; a [`FieldSet`] names parts of it. The
//! operations are [`collect`] (the fields of a value), [`compare`] (the fields in which two values
//! differ),
//! [`merge`] (one value on top of another), [`remove`] (a value without some fields) and
//! [`reconcile`] (a set after its schema has changed). The module is pure and independent of
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
mod reconcile;
mod remove;
mod schema;
mod set;
#[cfg(test)]
mod tests;

pub(crate) use self::builtin::builtin;
pub(crate) use self::check::check;
pub(crate) use self::collect::collect;
pub(crate) use self::compare::{Comparison, compare};
pub(crate) use self::custom::custom;
pub(crate) use self::element::Element;
pub(crate) use self::merge::merge;
pub(crate) use self::reconcile::reconcile;
pub(crate) use self::remove::{named, remove};
pub(crate) use self::schema::{Schema, Typed};
pub(crate) use self::set::FieldSet;
