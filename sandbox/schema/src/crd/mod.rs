//! Rules of CustomResourceDefinition objects: defaults, validation, conditions, and the kinds that
//! they define.
//!
//! Pure functions over the JSON of `apiextensions.k8s.io/v1`. Storing CRDs and serving their kinds
//! is done by the `cluster` module.
//!
//! # Flow
//!
//! 1. A create: [`default`], [`prepare_create`], [`validate`], [`warnings`]. An update:
//!    [`default`], [`prepare_update`], [`validate_update`]; of the status, [`validate_status`].
//! 2. After each write, also for CRDs of the group that wait for names: [`conditions`].
//! 3. [`is_established`] CRDs are served as the kind returned by [`kind()`].

mod approval;
mod columns;
mod conditions;
mod conversion;
mod cost;
mod default;
mod folding;
mod internal;
mod kind;
mod names;
mod naming;
mod openapi;
mod scale;
mod selectable;
mod validate;

pub use self::conditions::{conditions, is_established, is_terminating};
pub use self::default::{default, prepare_create, prepare_update};
pub use self::kind::kind;
pub use self::naming::has_its_names;
pub use self::scale::validate_scale;
pub use self::validate::{validate, validate_status, validate_update, warnings};

#[cfg(test)]
mod tests;
