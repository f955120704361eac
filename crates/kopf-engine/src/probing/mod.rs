//! HTTP endpoints of an operator: health probes and metrics.
//!
//! | path | response |
//! |---|---|
//! | that of `--liveness` | 200 with the results of the probe handlers as JSON; 500 if a probe handler has failed; 503 if the operator receives no events ([`crate::health`]), unless the settings disable that, or if the handlers take too long |
//! | that of `--metrics`, by default `/metrics` | the metrics ([`crate::metrics`]) |
//! | `/readyz` | 200 if the operator is ready, otherwise 503; the reasons as JSON |
//! | `/livez`, `/healthz` | 200 if the operator receives events, otherwise 503; the reasons as JSON |
//! | others | 404; 405 for methods other than GET and HEAD |
//!
//! The server is meant for a client on the same node that sends a request every few seconds. To
//! survive any other client, connections are limited in number, time and size. When there are too
//! many, the oldest one is closed.

mod endpoint;
mod listening;
mod paths;
mod prober;
mod readiness;
mod responding;
mod server;

pub use self::endpoint::{Endpoint, EndpointError};
pub(crate) use self::paths::{Role, Site, sites};
pub(crate) use self::server::serve;
