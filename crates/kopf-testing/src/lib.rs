//! Operators in tests: a [`Lab`] is an operator and a Kubernetes API in one process, without a
//! socket, with virtual time and with faults on demand.
//!
//! The API is a [sandbox](kopf_sandbox), the operator is the same one that runs in production. A test
//! does to objects what users would do, lets the operator [settle](Lab::settled), and looks at the
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
//! With `start_paused`, time is virtual: it stands still while there is work, and jumps to the next deadline
//! when there is none. A day of retries takes milliseconds, and the outcome does not depend on the speed of the
//! machine.
//!
//! Methods panic with the reason if a request fails, which fails the test. Those with names in `try_` return
//! what the API refuses.
#![allow(
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "this library exists to fail tests, and a panic is how a test fails"
)]

mod lab;
mod manifest;
pub mod recording;

pub use lab::{Builder, Lab, ObjectRef, Refusal};
pub use manifest::Manifest;

#[doc(hidden)]
pub mod __private {
    pub use serde_json::json;
}
