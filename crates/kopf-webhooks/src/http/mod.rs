//! The HTTP side of a server: connections, requests, responses. Addresses and certificates are in
//! other modules.

mod activity;
mod body;
mod connection;
mod connections;
mod cost;
mod descriptors;
mod headers;
mod listening;
mod memory;
mod rejection;
mod responder;
mod route;
mod values;

pub(crate) use self::connection::ConnectionConfig;
pub(crate) use self::connections::Connections;
pub(crate) use self::listening::Listening;
pub(crate) use self::responder::Responder;
pub(crate) use self::route::Route;
