//! Webhook servers and tunnels, through which API servers reach an operator.
//!
//! They implement [`WebhookServer`](kopf_core::admission::WebhookServer), the only interface to the
//! operator; other implementations are possible.
//!
//! | server | purpose |
//! |---|---|
//! | [`Server`] | any address that the API server can reach, with a generated or a given certificate |
//! | [`Server::service`] | a pod in a cluster, behind a Service |
//! | [`Server::k3d`], [`Server::minikube`], [`Server::docker_desktop`] | clusters on the same machine |
//! | [`Server::auto`] | detects these clusters |
//! | [`NgrokTunnel`] | development with a remote cluster |
//! | [`AutoTunnel`] | a cluster on the same machine, otherwise a tunnel |
//!
//! # Clients
//!
//! By default, all clients are accepted. Connections, requests, memory and time are
//! [limited](Limits), so that clients cannot block each other. Handlers can check headers and
//! client certificates.

mod address;
mod auto_tunnel;
mod detection;
mod endpoint;
mod error;
mod http;
mod limits;
mod ngrok;
mod server;
mod tls;

pub use self::auto_tunnel::AutoTunnel;
pub use self::detection::guess_host;
pub use self::error::Error;
pub use self::limits::Limits;
pub use self::ngrok::NgrokTunnel;
pub use self::server::Server;
pub use self::tls::{Verify, build_certificate};
/// Re-exported for [`Server::context`].
pub use rustls;
