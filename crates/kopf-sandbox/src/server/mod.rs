//! The way in over the network: a TLS listener, the certificates it shows, and the kubeconfig that
//! leads clients to it. What is served is somebody else's concern: a `tower::Service`.

pub(crate) mod certificates;
mod connection;
pub(crate) mod kubeconfig;
pub(crate) mod listener;
mod peer;
mod serving;
#[cfg(test)]
mod tests;

pub(crate) use self::peer::PeerCertificate;
