//! The three types of patches, as pure functions from a document and a patch to a new document.
//!
//! A patch applies as a whole or fails; the input document is unchanged. The result is not
//! validated here.

pub mod json;
pub mod merge;
pub mod strategic;

use serde_json::Value;

/// The reason why a patch is rejected, with the messages of the real server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// 400 `BadRequest`: the patch itself is malformed.
    #[error("{0}")]
    BadRequest(String),
    /// 413 `RequestEntityTooLarge`.
    #[error("{0}")]
    TooLarge(String),
    /// 422 `Invalid`: the patch does not apply to this document. The message is for logs: clients
    /// get "the server rejected our request due to an error in our request" with empty `details`.
    #[error("{0}")]
    Unprocessable(String),
    /// 422 `Invalid`: a `test` of a JSON patch failed. The message is for logs.
    #[error("{0}")]
    TestFailed(String),
    /// 500 without a reason: errors of strategic patches that the real server does not classify.
    #[error("{0}")]
    Internal(String),
}

/// Returns the name of a JSON type in the messages of the server's decoder.
fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
