use serde_json::json;

use super::*;

#[test]
fn statuses_are_kept() {
    let body = br#"{"kind":"Status","code":429,"reason":"TooManyRequests","message":"later",
                    "details":{"retryAfterSeconds":7}}"#;
    let status = Status::from_response(429, None, body);
    assert_eq!(status.code, 429);
    assert_eq!(status.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(status.to_string(), "later (429 TooManyRequests)");
    // The header takes precedence over the field.
    let status = Status::from_response(429, Some("3.9"), body);
    assert_eq!(status.retry_after, Some(Duration::from_secs(3)));
}

#[test]
fn other_json_is_dropped_and_text_is_truncated() {
    let status = Status::from_response(500, None, br#"{"kind":"Secret","data":{"a":"b"}}"#);
    assert_eq!(status.to_string(), "Internal Server Error (500)");
    assert!(status.details.is_none());

    let page = format!("  <html>{}</html>", "ä".repeat(300));
    let status = Status::from_response(502, Some("soon"), page.as_bytes());
    assert_eq!(status.message.chars().count(), 256);
    assert!(status.message.starts_with("<html>ä"));
    assert_eq!(status.retry_after, None);
}

#[test]
fn retry_after_is_limited() {
    for (given, expected) in [
        ("1e300", Some(86_400)),
        ("-1", None),
        ("NaN", None),
        ("0", Some(0)),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
    ] {
        let status = Status::from_response(429, Some(given), b"");
        assert_eq!(
            status.retry_after,
            expected.map(Duration::from_secs),
            "{given}"
        );
    }
}

#[test]
fn error_events_have_their_own_code() {
    let status = Status::from_event(br#"{"kind":"Status","code":410,"message":"too old"}"#);
    assert_eq!((status.code, status.message.as_str()), (410, "too old"));
    assert_eq!(Status::from_event(b"[1]").code, 0);
}

fn unprocessable(body: &Value) -> Error {
    let body = body.to_string();
    Error::Status(Box::new(Status::from_response(422, None, body.as_bytes())))
}

#[test]
fn failed_tests_are_recognised() {
    // `tests/api` checks that kube-apiserver and the sandbox send this.
    let failed = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "the server rejected our request due to an error in our request",
        "reason": "Invalid", "details": {}, "code": 422,
    });
    assert!(unprocessable(&failed).is_failed_test());
    let mut without_details = failed.clone();
    without_details.as_object_mut().unwrap().remove("details");
    assert!(unprocessable(&without_details).is_failed_test());
    let mut explained = failed.clone();
    explained["message"] = json!("testing value /metadata/resourceVersion failed: test failed");
    assert!(unprocessable(&explained).is_failed_test());

    let body = failed.to_string();
    let other_code = Status::from_response(400, None, body.as_bytes());
    assert!(!Error::Status(Box::new(other_code)).is_failed_test());
}

#[test]
fn denials_and_violations_are_not_failed_tests() {
    let denied = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "admission webhook \"a.example.com\" denied the request: the server \
                    rejected our request due to an error in our request",
        "reason": "Invalid", "code": 422,
    });
    let violation = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "KopfExample.kopf.dev \"a\" is invalid: spec.size: Invalid value: \
                    \"string\": spec.size in body must be of type integer: \"string\"",
        "reason": "Invalid", "code": 422,
        "details": {"name": "a", "group": "kopf.dev", "kind": "KopfExample", "causes": [
            {"reason": "FieldValueTypeInvalid", "field": "spec.size", "message": "Invalid"}]},
    });
    let mut about_object = violation.clone();
    about_object["message"] = json!(UNAPPLICABLE);
    for refusal in [denied, violation, about_object, json!({"kind": "Status"})] {
        let error = unprocessable(&refusal);
        assert!(error.is_unprocessable());
        assert!(!error.is_failed_test(), "{error}");
    }
    assert!(
        !Error::Timeout {
            after: Duration::ZERO
        }
        .is_failed_test()
    );
}

#[test]
fn content_that_is_too_large_is_recognised_and_not_sent_again() {
    // `tests/handling` gets these responses of kube-apiserver and of the sandbox.
    let response = |code: u16, message: &str, details: Value| {
        let body = json!({"kind": "Status", "message": message, "details": details});
        let status = Status::from_response(code, None, body.to_string().as_bytes());
        Error::Status(Box::new(status))
    };
    let too_long = json!({"name": "a", "causes": [{
        "field": "metadata.annotations", "reason": "FieldValueTooLong",
        "message": "Too long: may not be more than 262144 bytes",
    }]});
    for (error, limit) in [
        (
            response(413, "Request entity too large: limit is 3145728", json!({})),
            3_145_728,
        ),
        (
            response(500, "etcdserver: request is too large", json!({})),
            1_572_864,
        ),
        (
            response(
                500,
                "rpc error: code = ResourceExhausted desc = trying to send message larger than \
                 max (2500000 vs. 2097152)",
                json!({}),
            ),
            1_572_864,
        ),
        (
            response(
                422,
                "Thing \"a\" is invalid: metadata.annotations: Too long: may not be more than \
                 262144 bytes",
                too_long,
            ),
            262_144,
        ),
        (Error::Oversized { size: 5, limit: 4 }, 4),
    ] {
        assert!(error.is_too_large(), "{error}");
        assert!(!error.is_transient(), "{error}");
        assert_eq!(error.size_limit(), limit, "{error}");
    }
    let other = json!({"causes": [{"field": "spec.x", "reason": "FieldValueTooLong"}]});
    for error in [
        response(500, "etcdserver: request timed out", json!({})),
        response(422, "too long", other),
        response(400, "bad", json!({})),
    ] {
        assert!(!error.is_too_large(), "{error}");
    }
}

#[test]
fn denials_are_recognised_with_any_code() {
    let status = |code: u16, message: &str| {
        let body = json!({"kind": "Status", "message": message, "code": code}).to_string();
        Error::Status(Box::new(Status::from_response(code, None, body.as_bytes())))
    };
    let webhook = "admission webhook \"a.example.com\" denied the request: no";
    let unexplained = "admission webhook \"a.example.com\" denied the request without explanation";
    let policy = "ValidatingAdmissionPolicy 'a' with binding 'b' denied request: no";
    for code in [400, 403, 422] {
        for message in [webhook, unexplained, policy] {
            assert!(status(code, message).is_denial(), "{message}");
        }
    }
    let unauthorized = "things.example.com \"a\" is forbidden: User \"b\" cannot patch things";
    assert!(!status(403, unauthorized).is_denial());
    let quoted = format!("Thing \"a\" is invalid: {webhook}");
    assert!(!status(422, &quoted).is_denial());
}

#[test]
fn documents_are_not_quoted() {
    let error = serde_json::from_str::<Vec<u8>>(r#"["hunter2"]"#).unwrap_err();
    let text = Error::malformed("a list", &error).to_string();
    assert!(!text.contains("hunter2"), "{text}");
    assert!(text.contains("wrong type"), "{text}");
}

#[test]
fn long_delays_of_the_server_are_cut() {
    for (asked, obeyed) in [("0", 0), ("59", 59), ("60", 60), ("86400", 60)] {
        let status = Status::from_response(503, Some(asked), b"");
        let error = Error::Status(Box::new(status));
        assert_eq!(error.retry_after(), Some(Duration::from_secs(obeyed)));
    }
}

#[test]
fn rejected_content_is_not_transient() {
    let error = |code, message: &str| Error::Status(Box::new(Status::new(code, message)));
    let message =
        "failed to create typed patch object (ns/x; v1, Kind=ConfigMap): .spec: field not declared";
    assert!(!error(500, message).is_transient());
    assert!(error(500, "etcdserver: leader changed").is_transient());
    assert!(error(429, "").is_transient());
}
