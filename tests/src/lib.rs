//! What the API behaviour tests stand on: one way to reach an API server, whichever it is.
//!
//! A case starts with [`Api::start`], talks raw HTTP through it and ends with [`Api::finish`]. The
//! environment says which server answers (see [`Server`]), so that one set of assertions judges
//! both the sandbox and the real control plane. Nothing in here may interpret or repair what the
//! server said: the cases must see exactly what a client would see.
#![allow(
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "this library exists to fail tests, and a panic is how a test fails"
)]
#![allow(
    clippy::needless_pass_by_value,
    clippy::similar_names,
    reason = "cases give `json!(…)` as it is, and every patch has a path"
)]

mod answer;
mod api;
mod crd;
mod eventually;
pub mod objects;
mod query;
mod request;
mod server;
mod unique;
mod watch;
pub mod webhook;

pub use answer::Answer;
pub use api::Api;
pub use crd::{Crd, CrdBuilder};
pub use eventually::{PATIENCE, eventually};
pub use query::with_query;
pub use request::{PatchType, RequestBuilder};
pub use server::Server;
pub use watch::{Event, Watch};

/// The examples of docs/sandbox.md: they compile, and its test passes.
#[cfg(doctest)]
#[doc = include_str!("../../docs/sandbox.md")]
struct SandboxGuide;
