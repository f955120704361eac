//! Admission webhooks: reviews, responses, and webhook configurations.
//!
//! ```text
//! Incoming ─► Review ─► select ─► (handlers are called) ─► json_patch ─► respond
//!              └ resource, object, user
//! ClientConfig + handlers + resources ─► webhooks ─► decide: write the configuration or not
//! ```
//!
//! These are pure functions. Servers and calls of handlers are in other crates.

mod certificates;
mod client_config;
mod configuration;
mod mutation;
mod naming;
mod operations;
mod ownership;
mod response;
mod restorations;
mod review;
mod selection;
mod service;
mod serving;
#[cfg(test)]
mod tests;
mod text;
mod unreadable;

pub use client_config::{ClientConfig, ServiceReference};
pub(crate) use configuration::client_config as addressed;
pub use serving::{Incoming, Refusal, ServerError, Serving, Shutdown, WebhookServer};
pub use text::{ParseError, parse, parse_in_order};
pub use unreadable::{ReviewHead, Unreadable};

// Interfaces between the engine and our servers. Custom servers need none of them.
#[doc(hidden)]
pub use crate::handler::{Operation, UnknownOperation, WebhookType};
#[doc(hidden)]
pub use certificates::{
    Certificate, CertificateSecret, CertificateStore, StoredCertificate, UnusableSecret,
};
#[doc(hidden)]
pub use configuration::{Configured, served, webhooks};
#[doc(hidden)]
pub use mutation::{json_patch, json_patch_awaited};
#[doc(hidden)]
pub use naming::is_called;
#[doc(hidden)]
pub use ownership::{
    Activity, Content, Decision, OWNER_ANNOTATION, Owner, Reason, Relation, Situation, decide,
    hands_over, releases,
};
#[doc(hidden)]
pub use response::respond;
#[doc(hidden)]
pub use restorations::Restorations;
#[doc(hidden)]
pub use review::Review;
#[doc(hidden)]
pub use selection::{check_handler, select};
#[doc(hidden)]
pub use service::{InvalidService, SERVER_PORT, SERVICE_PORT, SERVICE_VARIABLE};
#[doc(hidden)]
pub use unreadable::SCANNED_BYTES;
