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
//! async fn greet(Name(name): Name) -> kopf::Result<Value> {
//!     Ok(json!({"text": format!("Hello, {name}!")}))
//! }
//!
//! const DEFINITION: &str = "
//! apiVersion: apiextensions.k8s.io/v1
//! kind: CustomResourceDefinition
//! metadata: {name: greetings.example.com}
//! spec:
//!   group: example.com
//!   scope: Namespaced
//!   names: {plural: greetings, singular: greeting, kind: Greeting}
//!   versions:
//!   - name: v1
//!     served: true
//!     storage: true
//!     schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
//! ";
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! # tokio::time::pause();
//! // In a test: #[tokio::test(start_paused = true)]
//! let operator = Operator::builder()
//!     .handler(on::create("greetings", greet).id("greet"))
//!     .build()
//!     .unwrap();
//! let lab = Lab::new().with(DEFINITION).operator(operator).start().await;
//!
//! let greeting = lab
//!     .apply(manifest!({
//!         "apiVersion": "example.com/v1", "kind": "Greeting", "metadata": {"name": "world"},
//!     }))
//!     .await;
//! lab.settled().await;
//!
//! assert_eq!(lab.get(&greeting).await["status"]["greet"]["text"], "Hello, world!");
//! # lab.finish().await;
//! # }
//! ```
//!
//! With `start_paused`, time is virtual: it stands still while anything is being done, and jumps to
//! the next deadline when everybody waits. A day of retries takes milliseconds, and the outcome
//! does not depend on the machine's speed.
//!
//! Nothing here returns errors: what a test cannot do fails the test, with the reason.
#![allow(
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "this library exists to fail tests, and a panic is how a test fails"
)]

mod lab;
mod manifest;
pub mod recording;

pub use lab::{Builder, Lab, ObjectRef};
pub use manifest::Manifest;

#[doc(hidden)]
pub mod __private {
    pub use serde_json::json;
}
