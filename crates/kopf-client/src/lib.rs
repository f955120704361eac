//! The client of the Kubernetes API: connection, requests, discovery, listing, watching, patching.
//!
//! It uses the types of `kopf-core`, and is used by the engine. All requests go through one
//! [`Client`], which is generic over its transport: a real server ([`connection`]), optionally with
//! changing credentials ([`vault`]), or an in-process HTTP service ([`Client::from_service`]).
//!
//! The crate does not interpret events, store objects, or read the wall clock.

#![warn(clippy::too_many_lines)]

pub mod applying;
mod certificate;
mod client;
mod clock;
pub mod connection;
pub mod discovery;
mod error;
pub mod events;
mod grant;
mod item;
pub mod listing;
pub mod observing;
pub mod patching;
mod random;
mod request;
#[cfg(test)]
mod script;
mod transport;
pub mod vault;
pub mod watching;

pub use self::client::Client;
pub use self::error::{Error, Status};

/// The result of a request.
pub type Result<T, E = Error> = std::result::Result<T, E>;
