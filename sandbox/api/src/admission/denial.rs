//! Denials by webhooks: the webhook's own `Status`, sanitised for the client.

use serde_json::{Value, json};

use super::decision::text;
use crate::status::ApiError;

/// Returns the error of a request that a webhook denied: the sanitised `Status` of the webhook.
pub(super) fn denial(webhook: &str, status: Option<&Value>) -> ApiError {
    let given = status.unwrap_or(&Value::Null);
    let code = given
        .get("code")
        .and_then(Value::as_u64)
        .unwrap_or_default();
    // HTTP status codes have three digits.
    let code = u16::try_from(code)
        .ok()
        .filter(|code| *code < 1000)
        .unwrap_or(500)
        .max(400);
    let denied = format!("admission webhook {webhook:?} denied the request");
    let message = match (text(given, "message"), text(given, "reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", why) | (why, _) => format!("{denied}: {why}"),
    };
    let state = match text(given, "status") {
        "" | "Success" => "Failure",
        other => other,
    };
    let mut body = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": state,
        "message": message,
        "code": code,
    });
    if !text(given, "reason").is_empty() {
        body["reason"] = json!(text(given, "reason"));
    }
    let details = given.get("details").and_then(details);
    let retry_after = details
        .as_ref()
        .and_then(|details| details.get("retryAfterSeconds"));
    let retry_after = retry_after
        .and_then(Value::as_u64)
        .and_then(|n| u32::try_from(n).ok());
    if let Some(details) = details {
        body["details"] = details;
    }
    ApiError::Verbatim {
        code,
        retry_after: retry_after.filter(|seconds| *seconds > 0),
        status: Box::new(body),
    }
}

/// Returns the known fields of the `details` of a `Status`.
fn details(given: &Value) -> Option<Value> {
    let known = [
        "name",
        "group",
        "kind",
        "uid",
        "causes",
        "retryAfterSeconds",
    ];
    let fields = given.as_object()?;
    let kept = fields
        .iter()
        .filter(|(key, value)| known.contains(&key.as_str()) && !value.is_null());
    Some(
        kept.map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denials_contain_the_status_of_the_webhook() {
        let denied = r#"admission webhook "w" denied the request"#;
        for (status, code, message, reason) in [
            (
                None,
                400,
                format!("{denied} without explanation"),
                json!(null),
            ),
            (
                Some(json!({ "message": "no" })),
                400,
                format!("{denied}: no"),
                json!(null),
            ),
            (
                Some(json!({ "reason": "Because", "code": 200 })),
                400,
                format!("{denied}: Because"),
                json!("Because"),
            ),
            (
                Some(json!({ "message": "no", "reason": "Invalid", "code": 422 })),
                422,
                format!("{denied}: no"),
                json!("Invalid"),
            ),
            (
                Some(json!({ "code": 999 })),
                999,
                format!("{denied} without explanation"),
                json!(null),
            ),
            (
                Some(json!({ "code": 70_000 })),
                500,
                format!("{denied} without explanation"),
                json!(null),
            ),
        ] {
            let error = denial("w", status.as_ref());
            let body = error.body();
            assert_eq!((error.code(), &body["code"]), (code, &json!(code)));
            assert_eq!(
                (&body["message"], &body["reason"]),
                (&json!(message), &reason)
            );
            assert_eq!(body["status"], "Failure");
        }
        let details =
            json!({ "kind": "x", "causes": [{ "field": "a" }], "retryAfterSeconds": 3, "foo": 1 });
        let error = denial("w", Some(&json!({ "details": details, "bar": 2 })));
        assert_eq!(error.retry_after(), Some(3));
        let body = error.body();
        assert_eq!(
            body["details"],
            json!({ "kind": "x", "causes": [{ "field": "a" }], "retryAfterSeconds": 3 })
        );
        assert_eq!(body.get("bar"), None);
    }
}
