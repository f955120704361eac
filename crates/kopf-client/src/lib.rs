//! Alone talks to the Kubernetes API: connection, requests, discovery, listing, watching, patching.
//!
//! It stands between the deciding crate (`kopf-core`), whose types it fills, and the engine, which
//! is given what was seen and says what is to be written. Everything goes through one [`Client`],
//! which is generic over its transport: a real server ([`connection`]), also with credentials that
//! change ([`vault`]), or anything that answers HTTP requests in this process
//! ([`Client::from_service`]).
//!
//! Nothing here decides what an event means, keeps objects, or reads the wall clock.

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

/// The result of talking to the server.
pub type Result<T, E = Error> = std::result::Result<T, E>;
