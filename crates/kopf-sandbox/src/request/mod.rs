//! Requests: the path, the options, the body, and the negotiated form of the response.

pub(crate) mod accept;
pub(crate) mod body;
pub(crate) mod decode;
pub(crate) mod duration;
pub(crate) mod options;
pub(crate) mod path;
