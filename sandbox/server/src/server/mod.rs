//! The network side: a TLS listener and the kubeconfig for clients. The served
//! API is any `tower::Service`.

mod connection;
pub(crate) mod kubeconfig;
pub(crate) mod listener;
mod messages;
mod own;
mod serving;
#[cfg(test)]
mod tests;
mod websocket;
