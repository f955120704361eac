//! Filters of objects and changes: the options `labels`, `annotations`, `field`, `value`, `old`,
//! `new`, `when`.
//!
//! ```
//! use kopf::prelude::*;
//! use kopf::{Body, Status};
//!
//! #[kopf::on::update(
//!     "kopfexamples",
//!     labels = {"app": "web", "canary": ABSENT, "version": is_recent},
//!     field = "spec.replicas",
//!     new = |replicas: &Value| replicas.as_u64() > Some(3),
//!     when = kopf::all_((is_ready, kopf::not_(is_protected))),
//! )]
//! fn scaled_up() {}
//!
//! fn is_recent(version: &Value) -> bool {
//!     version.as_str().is_some_and(|version| version.starts_with("2."))
//! }
//!
//! // Filters have arguments like handlers…
//! fn is_ready(Status(status): Status) -> bool {
//!     status["ready"] == true
//! }
//!
//! // …or only the object.
//! fn is_protected(body: &Body) -> bool {
//!     body.label("protected").is_some()
//! }
//! ```

mod combinators;
mod criteria;
mod functions;

pub use crate::fields::IntoFieldPath;
pub use combinators::{All, Any, None, Not, all_, any_, none_, not_};
pub use criteria::{ABSENT, Absent, IntoMetaCriterion, IntoValueCriterion, PRESENT, Present};
pub use functions::{FilterResult, ValueFunction, When};
