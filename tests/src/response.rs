//! A complete HTTP response, with accessors for assertions.

use http::HeaderMap;
use serde_json::Value;

/// A response to one request.
#[derive(Debug, Clone)]
pub struct ApiResponse {
    /// The HTTP status code.
    pub code: u16,
    /// The response headers.
    pub headers: HeaderMap,
    /// The body as JSON, or null if it is not JSON.
    pub json: Value,
    /// The raw body.
    pub bytes: bytes::Bytes,
    /// The request, for the messages of failed assertions.
    pub(crate) asked: String,
}

impl ApiResponse {
    /// Fails the test unless the request succeeded.
    #[track_caller]
    #[allow(
        clippy::return_self_not_must_use,
        reason = "the check itself is often all there is"
    )]
    pub fn ok(self) -> Self {
        assert!(
            (200..300).contains(&self.code),
            "{}: expected success, got {}: {}",
            self.asked,
            self.code,
            self.text()
        );
        self
    }

    /// Fails the test unless the status code is this one; for errors, the body must agree with it.
    #[track_caller]
    #[allow(
        clippy::return_self_not_must_use,
        reason = "the check itself is often all there is"
    )]
    pub fn expect_code(self, code: u16) -> Self {
        assert_eq!(self.code, code, "{}: {}", self.asked, self.text());
        if code >= 400 && self.json["kind"] == "Status" {
            assert_eq!(
                self.json["apiVersion"],
                "v1",
                "{}: {}",
                self.asked,
                self.text()
            );
            assert_eq!(
                self.json["status"],
                "Failure",
                "{}: {}",
                self.asked,
                self.text()
            );
            assert_eq!(self.json["code"], code, "{}: {}", self.asked, self.text());
        }
        self
    }

    /// Fails the test unless this is a `Status` failure with this code and reason.
    #[track_caller]
    #[allow(
        clippy::return_self_not_must_use,
        reason = "the check itself is often all there is"
    )]
    pub fn expect_failure(self, code: u16, reason: &str) -> Self {
        let this = self.expect_code(code);
        assert_eq!(
            this.json["kind"],
            "Status",
            "{}: {}",
            this.asked,
            this.text()
        );
        assert_eq!(this.reason(), reason, "{}: {}", this.asked, this.text());
        this
    }

    /// Returns the `reason` of a `Status`, or an empty string.
    pub fn reason(&self) -> &str {
        self.json["reason"].as_str().unwrap_or_default()
    }

    /// Returns the `message` of a `Status`, or an empty string.
    pub fn message(&self) -> &str {
        self.json["message"].as_str().unwrap_or_default()
    }

    /// Returns the `details` of a `Status`, or null.
    pub fn details(&self) -> &Value {
        &self.json["details"]
    }

    /// Returns the causes of a `Status` as (reason, field) pairs, in their order.
    pub fn causes(&self) -> Vec<(&str, &str)> {
        let causes = self.details()["causes"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        causes
            .iter()
            .map(|cause| {
                (
                    cause["reason"].as_str().unwrap_or_default(),
                    cause["field"].as_str().unwrap_or_default(),
                )
            })
            .collect()
    }

    /// Returns the value at a JSON pointer, or null.
    pub fn at(&self, pointer: &str) -> &Value {
        self.json.pointer(pointer).unwrap_or(&Value::Null)
    }

    /// Returns `metadata.name`, or an empty string.
    pub fn name(&self) -> &str {
        self.json["metadata"]["name"].as_str().unwrap_or_default()
    }

    /// Returns `metadata.uid`, or an empty string.
    pub fn uid(&self) -> &str {
        self.json["metadata"]["uid"].as_str().unwrap_or_default()
    }

    /// Returns `metadata.resourceVersion` of an object or of a list. Fails the test if there is
    /// none.
    #[track_caller]
    pub fn resource_version(&self) -> String {
        self.json["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_else(|| panic!("{}: no resourceVersion in {}", self.asked, self.text()))
            .to_owned()
    }

    /// Returns `metadata.generation`. Fails the test if there is none.
    #[track_caller]
    pub fn generation(&self) -> i64 {
        self.json["metadata"]["generation"]
            .as_i64()
            .unwrap_or_else(|| panic!("{}: no generation in {}", self.asked, self.text()))
    }

    /// Returns the items of a list. Fails the test if this is not a list.
    #[track_caller]
    pub fn items(&self) -> &[Value] {
        self.json["items"]
            .as_array()
            .unwrap_or_else(|| panic!("{}: no items in {}", self.asked, self.text()))
    }

    /// Returns the names of the items of a list, in the order of the list.
    #[track_caller]
    pub fn item_names(&self) -> Vec<&str> {
        self.items()
            .iter()
            .map(|item| item["metadata"]["name"].as_str().unwrap_or_default())
            .collect()
    }

    /// Returns the values of the `Warning` headers, without their code and agent.
    pub fn warnings(&self) -> Vec<String> {
        self.headers
            .get_all("warning")
            .iter()
            .filter_map(|value| value.to_str().ok())
            .filter_map(|value| value.split_once('"'))
            .map(|(_, text)| text.strip_suffix('"').unwrap_or(text).replace("\\\"", "\""))
            .collect()
    }

    /// Returns the content type without its parameters, or an empty string.
    pub fn content_type(&self) -> &str {
        self.headers
            .get(http::header::CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split(';').next())
            .unwrap_or_default()
    }

    /// Returns the body as a string, with invalid UTF-8 replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}
