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
mod operation;
mod operations;
mod ownership;
mod response;
mod restorations;
mod review;
mod selection;
mod serving;
#[cfg(test)]
mod tests;
mod text;
mod unreadable;

pub use certificates::{
    Certificate, CertificateSecret, CertificateStore, StoredCertificate, UnusableSecret,
};
pub use client_config::{ClientConfig, ServiceReference};
pub(crate) use configuration::client_config as addressed;
pub use configuration::{Configured, served, webhooks};
pub use mutation::{json_patch, json_patch_awaited};
pub use naming::is_called;
pub use operation::{Operation, UnknownOperation, WebhookType};
pub use ownership::{
    Activity, Content, Decision, OWNER_ANNOTATION, Owner, Reason, Relation, Situation, decide,
    hands_over, releases,
};
pub use response::respond;
pub use restorations::Restorations;
pub use review::Review;
pub use selection::{check_handler, select};
pub use serving::{Incoming, Refusal, ServerError, Serving, Shutdown, WebhookServer};
pub use text::{ParseError, parse};
pub use unreadable::{ReviewHead, SCANNED_BYTES, Unreadable};
