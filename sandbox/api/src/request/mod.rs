//! Requests: the path, the options, the body, and the negotiated form of the response.

pub mod accept;
pub mod body;
pub mod decode;
pub mod options;
pub mod path;
pub mod upgrade;
