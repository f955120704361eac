//! The protobuf encoding of Kubernetes, which Go clients prefer for built-in kinds.
//!
//! The body of a request is converted to JSON before it is processed. Responses are converted from
//! JSON at the end, and only for clients that accept neither JSON nor YAML. Custom resources have
//! no messages.

mod encode;
mod envelope;
mod message;
mod special;
mod wire;
mod write_special;
mod writer;

use std::fmt::Write as _;

use serde_json::Value;

pub use self::encode::{ListEncoder, PROTOBUF, encode, frames};

use crate::typing;

/// The type that a request implies if the body contains none.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    pub api_version: &'a str,
    pub kind: &'a str,
}

/// Number of bytes of an invalid body in error messages.
const SHOWN: usize = 30;

/// Decodes a body. The error is the whole message for the client.
pub fn decode(body: &[u8], expected: Expected<'_>) -> Result<Value, String> {
    let reader = message::Reader {
        types: typing::built_in(),
        depth: message::MAX_DEPTH,
    };
    let mut envelope = envelope::open(body).map_err(|error| unrecognized(body, expected, error))?;
    if envelope.kind.is_empty() {
        expected.kind.clone_into(&mut envelope.kind);
    }
    if envelope.api_version.is_empty() {
        expected.api_version.clone_into(&mut envelope.api_version);
    }
    envelope.read(reader).map_err(|error| {
        if expected.is_options() {
            return error;
        }
        let version = envelope.api_version.rsplit('/').next().unwrap_or_default();
        format!(
            "{} in version {version:?} cannot be handled as a {}: {error}",
            envelope.kind, expected.kind
        )
    })
}

impl Expected<'_> {
    /// Returns `true` for options. Errors do not refer to them as objects.
    fn is_options(self) -> bool {
        self.kind == "DeleteOptions"
    }
}

fn unrecognized(body: &[u8], expected: Expected<'_>, error: String) -> String {
    if expected.is_options() {
        return error;
    }
    let start = body.get(..SHOWN).unwrap_or(body);
    let mut shown = String::new();
    if start.starts_with(b"{") {
        shown.push_str(&String::from_utf8_lossy(start));
    } else {
        for byte in start {
            // Writing to a string cannot fail.
            let _ = write!(shown, "{byte:02x}");
        }
    }
    match body.len() {
        0 => shown.push_str("<empty>"),
        1..=SHOWN => {}
        _ => shown.push_str(" ..."),
    }
    format!(
        "the object provided is unrecognized (must be of type {}): {error} ({shown})",
        expected.kind
    )
}

#[cfg(test)]
mod tests;
