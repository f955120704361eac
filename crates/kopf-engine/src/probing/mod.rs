//! Answers to those who ask whether the operator lives: over HTTP, at one address and path.
//!
//! | answer | when |
//! |---|---|
//! | 200 and the results of the probe handlers as JSON | all is well |
//! | 500 and the reason | a probe handler has failed |
//! | 503 and the reason | the operator is deaf ([`crate::health`]), unless the settings say that it does not matter; or the handlers take too long |
//! | 404, 405 | other paths and methods |
//!
//! The server is for a neighbour that asks every few seconds, and must survive everyone else: there
//! is a limit for connections, for their time, and for what they send; when there are too many, the
//! oldest one has to go.

mod endpoint;
mod listening;
mod prober;
mod server;

pub use self::endpoint::{Endpoint, EndpointError};
pub(crate) use self::server::serve;
