//! The network side: a TLS listener, its certificates, and the kubeconfig for clients. The served
//! API is any `tower::Service`.

pub(crate) mod certificates;
mod connection;
pub(crate) mod kubeconfig;
pub(crate) mod listener;
mod peer;
mod serving;
#[cfg(test)]
mod tests;
mod websocket;

pub(crate) use self::peer::PeerCertificate;
