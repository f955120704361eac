//! Admission webhooks: what the API server asks before it stores an object, and what it is told.
//!
//! ```text
//! Incoming ─► Review ─► select ─► (handlers are called) ─► json_patch ─► respond
//!              └ which kind, which object, who asks
//! ClientConfig + handlers + kinds ─► webhooks: what the API server is told to ask
//! ```
//!
//! Who takes requests and who calls handlers is elsewhere: nothing here waits or talks.

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

pub use client_config::{ClientConfig, ServiceReference};
pub use configuration::{Configured, served, webhooks};
pub use mutation::{json_patch, json_patch_awaited};
pub use naming::is_called;
pub use operation::{Operation, UnknownOperation, WebhookType};
pub use ownership::{
    Activity, Content, Decision, OWNER_ANNOTATION, Owner, Reason, Relation, Situation, decide,
    releases,
};
pub use response::respond;
pub use restorations::Restorations;
pub use review::Review;
pub use selection::{check_handler, select};
pub use serving::{Incoming, Refusal, ServerError, Serving, Shutdown, WebhookServer};
pub use text::{ParseError, parse};
pub use unreadable::{ReviewHead, SCANNED_BYTES, Unreadable};
