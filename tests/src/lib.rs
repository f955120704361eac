//! Fixtures of the API behaviour tests: access to an API server.
//!
//! A case starts with [`Api::start`] and sends raw HTTP requests. Its objects are removed when the
//! [`Api`] is dropped, also after a failure. The environment selects the server (see [`Server`]), so
//! that the same assertions apply to the sandbox and the real control plane. Responses are neither
//! interpreted nor modified here.
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

mod api;
mod cleanup;
mod crd;
mod eventually;
pub mod objects;
mod query;
mod request;
mod response;
mod server;
pub mod transcript;
mod unique;
mod watch;
pub mod webhook;

pub use api::Api;
pub use crd::{Crd, CrdBuilder};
pub use eventually::{PATIENCE, eventually};
pub use query::with_query;
pub use request::{PatchType, RequestBuilder};
pub use response::ApiResponse;
pub use server::Server;
pub use watch::{Event, Watch};

/// The examples of docs/test/faults.md: they compile, and their tests pass.
#[cfg(doctest)]
#[doc = include_str!("../../docs/test/faults.md")]
struct TestFaults;

/// The examples of docs/test/sandbox-in-rust.md: they compile, and their tests pass.
#[cfg(doctest)]
#[doc = include_str!("../../docs/test/sandbox-in-rust.md")]
struct TestSandboxInRust;

/// The examples of docs/test/simulation.md: they compile, and their tests pass.
#[cfg(doctest)]
#[doc = include_str!("../../docs/test/simulation.md")]
struct TestSimulation;
