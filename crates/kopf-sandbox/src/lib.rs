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

mod access;
mod admission;
mod body;
mod cel;
mod clock;
mod cluster;
mod control;
mod conversion;
mod crd;
mod discovery;
mod dispatch;
mod documents;
pub mod fault;
mod field_error;
mod fields;
mod health;
mod ids;
mod journal;
mod json_path;
mod kinds;
mod kubeconfig_file;
mod managers;
pub mod manifests;
mod metrics;
mod object;
mod openapi;
mod patch;
mod pattern_weight;
mod plugins;
mod protobuf;
mod request;
mod respond;
mod rights;
mod rules;
mod sandbox;
mod schema;
mod selectors;
mod server;
mod service;
mod services;
pub mod simulation;
mod stack;
mod status;
mod store;
mod sync;
mod table;
mod typing;
mod verbs;

pub use self::admission::{InvalidServiceUrl, ServiceUrl};
pub use self::body::{Body, BodyError};
pub use self::journal::DataError;
pub use self::kubeconfig_file::{Cleanup, KubeconfigFile};
pub use self::sandbox::{Builder, Error, Listen, Listening, Sandbox};
pub use self::service::Service;
