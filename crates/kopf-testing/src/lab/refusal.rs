//! Rejected requests.

use std::fmt;

use serde_json::Value;

/// A request that the API rejected: by validation, by admission, by a conflict, or because the
/// object does not exist.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Refusal {
    /// The HTTP status code, such as 422.
    pub code: u16,
    /// The machine-readable reason, such as `Invalid` or `NotFound`; empty if the response has
    /// none.
    pub reason: String,
    /// The human-readable message; empty if the response has none.
    pub message: String,
    /// The whole response, usually a Kubernetes `Status`.
    pub response: Value,
}

impl Refusal {
    pub(super) fn new(code: u16, response: Value) -> Self {
        let text = |key: &str| response[key].as_str().unwrap_or_default().to_owned();
        Self {
            code,
            reason: text("reason"),
            message: text("message"),
            response,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, response, .. } = self;
        match (self.reason.as_str(), self.message.as_str()) {
            (_, "") => write!(f, "{code}: {response}"),
            ("", message) => write!(f, "{code}: {message}"),
            (reason, message) => write!(f, "{code} {reason}: {message}"),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_contain_the_message_of_the_response() {
        let response = json!({"kind": "Status", "reason": "Invalid", "message": "not so"});
        let refusal = Refusal::new(422, response);
        assert_eq!(refusal.reason, "Invalid");
        assert_eq!(refusal.to_string(), "422 Invalid: not so");
        assert_eq!(
            Refusal::new(500, json!({"message": "x"})).to_string(),
            "500: x"
        );
        assert_eq!(Refusal::new(503, json!(null)).to_string(), "503: null");
    }
}
