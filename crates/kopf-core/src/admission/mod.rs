//! Admission webhooks: what the API server asks before it stores an object, and what it is told.

mod client_config;
mod serving;

pub use client_config::{ClientConfig, ServiceReference};
pub use serving::{Incoming, Refusal, ServerError, Serving, WebhookServer};
