//! Webhook servers and tunnels: how the API server reaches an operator.
//!
//! An operator knows nothing of them but the trait
//! [`WebhookServer`](kopf_core::admission::WebhookServer): it hands itself to one, is told where the
//! API server finds it, and reviews what comes in. These are the ones that come with the framework;
//! anybody can write others.
//!
//! | | for |
//! |---|---|
//! | [`Server`] | any place that the API server can reach, with its own certificate or a given one |
//! | [`Server::k3d`], [`Server::minikube`], [`Server::docker_desktop`] | clusters on the same machine |
//! | [`Server::auto`] | whichever of these it is |
//! | [`NgrokTunnel`] | development, with a cluster that is elsewhere |
//! | [`AutoTunnel`] | a cluster on the same machine, or else a tunnel |
//!
//! # Who is served
//!
//! Everybody who connects, and for a while only: connections, requests, memory and time are
//! [limited](Limits), so that no client keeps others from being served. Who it is, is left to
//! handlers, by headers and by the certificate of the client.

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
pub use self::error::Error;
pub use self::limits::Limits;
pub use self::ngrok::NgrokTunnel;
pub use self::server::Server;
pub use self::tls::Verify;
/// For [`Server::context`].
pub use rustls;
