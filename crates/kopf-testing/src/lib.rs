//! Operators in tests: a [`Lab`] is an operator and a Kubernetes API in one process, without
//! sockets, with virtual time and fault injection.
//!
//! The API is a [sandbox](kopf_sandbox), and the operator is the one that runs in production. A
//! test changes objects like a user, lets the operator [settle](Lab::settled), and checks the
//! objects:
//!
//! ```
//! use kopf::prelude::*;
//! use kopf_testing::{Lab, manifest};
//!
//! #[kopf::resource(group = "example.com", version = "v1", kind = "Greeting", namespaced)]
//! #[kube(status = "GreetingStatus")]
//! struct GreetingSpec {
//!     name: String,
//! }
//!
//! #[kopf::schema]
//! struct GreetingStatus {
//!     greet: Option<String>,
//! }
//!
//! async fn greet(Spec(spec): Spec<GreetingSpec>) -> kopf::Result<String> {
//!     Ok(format!("Hello, {}!", spec.name))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! # tokio::time::pause();
//! // In a test: #[tokio::test(start_paused = true)]
//! let operator = Operator::builder()
//!     .handler(on::create("greetings", greet).id("greet"))
//!     .build()
//!     .unwrap();
//! let lab = Lab::new().crd::<Greeting>().operator(operator).start().await;
//!
//! let greeting = lab
//!     .apply(manifest!({
//!         "apiVersion": "example.com/v1", "kind": "Greeting",
//!         "metadata": {"name": "one"}, "spec": {"name": "world"},
//!     }))
//!     .await;
//! lab.settled().await;
//!
//! assert_eq!(lab.get(&greeting).await["status"]["greet"], "Hello, world!");
//! # lab.finish().await;
//! # }
//! ```
//!
//! With `start_paused`, time is virtual: it jumps to the next deadline when all tasks are idle. A
//! day of retries takes milliseconds, and the outcome does not depend on the speed of the machine.
//!
//! The same test can also run over sockets, with the sandbox behind [TLS](Builder::over_tls), or on a given
//! [cluster](Builder::cluster); both in real time.
//!
//! Methods panic with the reason if a request fails, which fails the test. Methods with the prefix
//! `try_` return an error if the API rejects the request.
#![allow(
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "this library is for tests, which fail by panics"
)]

mod lab;
mod manifest;
pub mod recording;

pub use kopf_explore as explore;
pub use lab::{Builder, Exploring, Lab, ObjectRef, Refusal};
pub use manifest::Manifest;

#[doc(hidden)]
pub mod __private {
    pub use serde_json::json;
}
