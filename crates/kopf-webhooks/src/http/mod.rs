//! The HTTP side of a server: connections, requests, answers. It knows nothing of where it can be
//! reached, or of where certificates come from.

mod activity;
mod answering;
mod body;
mod connection;
mod cost;
mod descriptors;
mod guests;
mod headers;
mod listening;
mod memory;
mod rejection;
mod route;
mod values;

pub(crate) use self::answering::Answering;
pub(crate) use self::connection::Terms;
pub(crate) use self::guests::Guests;
pub(crate) use self::listening::Listening;
pub(crate) use self::route::Route;
