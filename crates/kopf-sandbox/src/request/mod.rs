//! What a request asks for: its path, its options, its body, the form of the answer.

pub(crate) mod accept;
pub(crate) mod body;
pub(crate) mod decode;
pub(crate) mod duration;
pub(crate) mod options;
pub(crate) mod path;
