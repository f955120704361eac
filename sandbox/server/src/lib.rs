//! An embedded Kubernetes API server, for first runs, demos and tests.
//!
//! [`Sandbox::service`] is the whole API as a [`tower::Service`], usable in process without a
//! socket and with paused time. [`Sandbox::listen`] serves the same API over TLS, for kubectl and
//! clients in any language. Hundreds of independent sandboxes fit in one process.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let sandbox = kopf_sandbox::Sandbox::builder().build()?;
//! let listening = sandbox.listen(kopf_sandbox::Listen::default()).await?;
//! assert!(listening.url().starts_with("https://127.0.0.1:"));
//! let kubeconfig = listening.kubeconfig(); // for kubectl
//! # assert!(kubeconfig.contains("kopf-sandbox"));
//! listening.shutdown().await;
//! sandbox.shutdown().await;
//! # Ok(()) }
//! ```
//!
//! Objects are stored and validated, but nothing acts on workloads by default: a Deployment creates no pods,
//! unless it is [simulated](simulation). Garbage collection and the termination of namespaces and CRDs work.

#![warn(clippy::too_many_lines)]

pub mod fault;
mod kubeconfig_file;
pub mod manifests;
mod sandbox;
mod server;
mod service;
pub mod tap;
pub mod view;

#[doc(inline)]
pub use kopf_sandbox_api::admission::{InvalidServiceUrl, ServiceUrl};
#[doc(inline)]
pub use kopf_sandbox_api::body::{Body, BodyError};
#[doc(inline)]
pub use kopf_sandbox_simulation as simulation;
#[doc(inline)]
pub use kopf_sandbox_store::journal::DataError;

pub use self::kubeconfig_file::{Cleanup, KubeconfigFile};
pub use self::sandbox::{Builder, Error, Listen, Listening, Sandbox};
pub use self::service::Service;
