//! The network side: a TLS listener, its certificates, and the kubeconfig for clients. The served
//! API is any `tower::Service`.

pub(crate) mod certificates;
mod connection;
pub(crate) mod kubeconfig;
pub(crate) mod listener;
mod messages;
mod own;
mod peer;
mod serving;
mod socket_token;
#[cfg(test)]
mod tests;
mod websocket;

pub(crate) use self::own::OwnConnection;
pub(crate) use self::peer::PeerCertificate;
pub(crate) use self::socket_token::socket_token;
pub(crate) use self::websocket::is_upgrade;
