//! `AdmissionReview` responses: parsing and validation.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::Value;

use super::configuration::ReviewVersion;

/// The kind of a review, with its versions.
#[derive(Debug, Clone, Copy)]
pub struct ReviewKind {
    pub kind: &'static str,
    pub group: &'static str,
}

const ADMISSION: ReviewKind = ReviewKind {
    kind: "AdmissionReview",
    group: "admission.k8s.io",
};

impl ReviewVersion {
    pub(super) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "admission.k8s.io/v1",
            Self::V1Beta1 => "admission.k8s.io/v1beta1",
        }
    }
}

/// The raw response of a webhook server.
#[derive(Debug, Clone)]
pub struct RawResponse {
    pub status: u16,
    pub content_type: String,
    pub body: Bytes,
}

/// The decision of a webhook.
#[derive(Debug, Default)]
pub(super) struct Decision {
    pub(super) allowed: bool,
    /// The `Status` of a denial.
    pub(super) status: Option<Value>,
    /// The raw bytes of the JSON patch; empty if there is none.
    pub(super) patch: Vec<u8>,
    /// The type of the patch, as given by the webhook.
    pub(super) patch_type: String,
    pub(super) warnings: Vec<String>,
}

/// Returns the decision in a response. The error is the string that follows `failed calling webhook
/// "…": `.
pub(super) fn decision(
    version: ReviewVersion,
    mutating: bool,
    uid: &str,
    response: &RawResponse,
) -> Result<Decision, String> {
    let review = parsed(ADMISSION, version.api_version(), response)
        .map_err(|why| format!("failed to call webhook: {why}"))?;
    let response = review
        .get("response")
        .filter(|response| !response.is_null());
    let typed = Response::read(response).map_err(|why| format!("failed to call webhook: {why}"))?;
    let invalid = |why: String| Err(format!("received invalid webhook response: {why}"));
    let Some(Response {
        uid: answered,
        patch,
        patch_type,
        mut decision,
    }) = typed
    else {
        return invalid("webhook response was absent".to_owned());
    };
    let has_patch = !patch.is_empty();
    if version == ReviewVersion::V1Beta1 {
        // This version of reviews validates neither the uid nor the patch type.
        if mutating && has_patch {
            decision.patch = patch;
            "JSONPatch".clone_into(&mut decision.patch_type);
        }
        return Ok(decision);
    }
    if answered != uid {
        return invalid(format!("expected response.uid={uid:?}, got {answered:?}"));
    }
    let (api_version, kind) = (text(&review, "apiVersion"), text(&review, "kind"));
    if (api_version, kind) != (version.api_version(), "AdmissionReview") {
        let group_version = if api_version.contains('/') {
            api_version.to_owned()
        } else {
            format!("/{api_version}")
        };
        return invalid(format!(
            "expected webhook response of {}, Kind=AdmissionReview, got {group_version}, Kind={kind}",
            version.api_version()
        ));
    }
    match (mutating, has_patch, &patch_type) {
        (false, true, _) => {
            return invalid("validating webhook may not return response.patch".into());
        }
        (false, _, Some(_)) => {
            return invalid("validating webhook may not return response.patchType".into());
        }
        (true, true, None) => {
            return invalid("webhook returned response.patch but not response.patchType".into());
        }
        (true, false, Some(_)) => {
            return invalid("webhook returned response.patchType but not response.patch".into());
        }
        (true, true, Some(name)) if name.is_empty() => {
            return invalid("webhook returned invalid response.patchType of \"\"".into());
        }
        _ => {}
    }
    decision.patch = patch;
    decision.patch_type = patch_type.unwrap_or_default();
    Ok(decision)
}

/// The fields of a response, with validated types.
struct Response {
    uid: String,
    patch: Vec<u8>,
    patch_type: Option<String>,
    decision: Decision,
}

impl Response {
    fn read(response: Option<&Value>) -> Result<Option<Self>, String> {
        let Some(response) = response else {
            return Ok(None);
        };
        if !response.is_object() {
            return Err(mistyped(
                response,
                "AdmissionReview.response",
                "v1.AdmissionResponse",
            ));
        }
        let field = |name: &str| response.get(name).filter(|value| !value.is_null());
        let string = |name: &str, kind: &str| match field(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(mistyped(
                other,
                &format!("AdmissionResponse.response.{name}"),
                kind,
            )),
        };
        let allowed = match field("allowed") {
            None => false,
            Some(Value::Bool(allowed)) => *allowed,
            Some(other) => {
                return Err(mistyped(
                    other,
                    "AdmissionResponse.response.allowed",
                    "bool",
                ));
            }
        };
        let warnings = given_warnings(field("warnings"))?;
        let status = field("status").cloned();
        if let Some(other) = &status
            && !other.is_object()
        {
            return Err(mistyped(
                other,
                "AdmissionResponse.response.status",
                "v1.Status",
            ));
        }
        let patch = string("patch", "[]uint8")?.unwrap_or_default();
        let patch = STANDARD.decode(&patch).map_err(|error| match error {
            base64::DecodeError::InvalidByte(at, _) => {
                format!("illegal base64 data at input byte {at}")
            }
            _ => format!("illegal base64 data at input byte {}", patch.len()),
        })?;
        Ok(Some(Self {
            uid: string("uid", "types.UID")?.unwrap_or_default(),
            patch,
            patch_type: string("patchType", "v1.PatchType")?,
            decision: Decision {
                allowed,
                status,
                warnings,
                ..Decision::default()
            },
        }))
    }
}

fn given_warnings(value: Option<&Value>) -> Result<Vec<String>, String> {
    let at = "AdmissionResponse.response.warnings";
    let text = |item: &Value| {
        let text = item.as_str().map(str::to_owned);
        text.ok_or_else(|| mistyped(item, at, "string"))
    };
    match value {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => items.iter().map(text).collect(),
        Some(other) => Err(mistyped(other, at, "[]string")),
    }
}

/// Parses the review in a response. `expected` is its `apiVersion`.
pub fn parsed(of: ReviewKind, expected: &str, response: &RawResponse) -> Result<Value, String> {
    let body: Result<Value, _> = serde_json::from_slice(&response.body);
    if !(200..=206).contains(&response.status) {
        return Err(http_failure(response, body.ok().as_ref()));
    }
    if response.body.is_empty() {
        return Err(format!(
            "0-length response with status code: {} and content type: {}",
            response.status, response.content_type
        ));
    }
    let review =
        body.map_err(|error| format!("couldn't get version/kind; json parse error: {error}"))?;
    if !review.is_object() {
        return Err(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into an object",
            type_name(&review)
        ));
    }
    // An absent `apiVersion` or `kind` defaults to the expected one here and is rejected later.
    let api_version = Some(text(&review, "apiVersion")).filter(|text| !text.is_empty());
    let api_version = api_version.unwrap_or(expected);
    let kind = Some(text(&review, "kind")).filter(|text| !text.is_empty());
    let kind = kind.unwrap_or(of.kind);
    if kind == of.kind && api_version == expected {
        return Ok(review);
    }
    let short = |api_version: &str| {
        let (group, version) = api_version.split_once('/')?;
        let known = group == of.group && matches!(version, "v1" | "v1beta1");
        known.then(|| version.to_owned())
    };
    match (short(api_version), short(expected)) {
        (Some(given), Some(wanted)) if kind == of.kind => Err(format!(
            "converting ({given}.{kind}) to ({wanted}.{kind}): unknown conversion"
        )),
        _ => Err(format!(
            "no kind {kind:?} is registered for version {api_version:?}"
        )),
    }
}

/// Returns the message for a response with an HTTP error status.
fn http_failure(response: &RawResponse, body: Option<&Value>) -> String {
    if let Some(status) = body.filter(|body| text(body, "kind") == "Status")
        && text(status, "status") != "Success"
    {
        return text(status, "message").to_owned();
    }
    let is_text = response.content_type.is_empty() || response.content_type.starts_with("text/");
    let said = if is_text {
        let said = String::from_utf8_lossy(&response.body);
        said.trim().chars().take(2048).collect()
    } else {
        "unknown".to_owned()
    };
    match response.status {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        406 if said.is_empty() || said == "unknown" => {
            "the server was unable to respond with a content type that the client supports"
                .to_owned()
        }
        403 | 406 | 415 => said,
        409 => "the server reported a conflict".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later"
            .to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be \
                processing the request"
            .to_owned(),
        code if code >= 500 => {
            format!("an error on the server ({said:?}) has prevented the request from succeeding")
        }
        code => format!(
            "the server responded with the status code {code} but did not return more information"
        ),
    }
}

pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn mistyped(value: &Value, field: &str, wanted: &str) -> String {
    format!(
        "json: cannot unmarshal {} into Go struct field {field} of type {wanted}",
        type_name(value)
    )
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn raw(body: &Value) -> RawResponse {
        RawResponse {
            status: 200,
            content_type: "application/json".to_owned(),
            body: Bytes::from(body.to_string()),
        }
    }

    fn review(response: &Value) -> RawResponse {
        raw(&json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response,
        }))
    }

    fn failure(mutating: bool, response: &RawResponse) -> String {
        decision(ReviewVersion::V1, mutating, "u", response).unwrap_err()
    }

    #[allow(clippy::too_many_lines, reason = "a table of cases")]
    #[test]
    fn errors_of_invalid_responses_match_a_real_server() {
        let plain = |status, content_type: &str, body: &str| RawResponse {
            status,
            content_type: content_type.to_owned(),
            body: Bytes::from(body.to_owned()),
        };
        let absent = "received invalid webhook response: webhook response was absent";
        for (response, text) in [
            (raw(&json!({})), absent),
            (review(&json!(null)), absent),
            (
                raw(&json!({ "response": { "uid": "u", "allowed": true } })),
                "received invalid webhook response: expected webhook response of \
                 admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=",
            ),
            (
                raw(&json!({ "apiVersion": "v1", "kind": "ConfigMap" })),
                r#"failed to call webhook: no kind "ConfigMap" is registered for version "v1""#,
            ),
            (
                raw(
                    &json!({ "apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview" }),
                ),
                "failed to call webhook: converting (v1beta1.AdmissionReview) to \
                 (v1.AdmissionReview): unknown conversion",
            ),
            (
                review(&json!({ "uid": "nope" })),
                r#"received invalid webhook response: expected response.uid="u", got "nope""#,
            ),
            (
                review(&json!({ "uid": "u", "allowed": "yes" })),
                "failed to call webhook: json: cannot unmarshal string into Go struct field \
                 AdmissionResponse.response.allowed of type bool",
            ),
            (
                plain(200, "application/json", ""),
                "failed to call webhook: 0-length response with status code: 200 and content \
                 type: application/json",
            ),
            (
                plain(404, "application/json", "not here"),
                "failed to call webhook: the server could not find the requested resource",
            ),
            (
                plain(500, "application/json", "boom"),
                r#"failed to call webhook: an error on the server ("unknown") has prevented the request from succeeding"#,
            ),
            (
                plain(500, "text/plain; charset=utf-8", " boom "),
                r#"failed to call webhook: an error on the server ("boom") has prevented the request from succeeding"#,
            ),
            (
                plain(
                    500,
                    "application/json",
                    r#"{"kind":"Status","status":"Failure","message":"my"}"#,
                ),
                "failed to call webhook: my",
            ),
            (
                plain(302, "", ""),
                "failed to call webhook: the server responded with the status code 302 but did \
                 not return more information",
            ),
            (
                review(&json!({ "uid": "u", "patch": "W10=" })),
                "received invalid webhook response: validating webhook may not return response.patch",
            ),
        ] {
            assert_eq!(failure(false, &response), text);
        }
        let garbage = failure(false, &plain(200, "text/plain", "hello"));
        assert!(
            garbage.starts_with(
                "failed to call webhook: couldn't get version/kind; json parse error: "
            )
        );
    }

    #[test]
    fn patches_require_a_type() {
        for (response, text) in [
            (
                json!({ "uid": "u", "patch": "W10=" }),
                "webhook returned response.patch but not response.patchType",
            ),
            (
                json!({ "uid": "u", "patchType": "JSONPatch" }),
                "webhook returned response.patchType but not response.patch",
            ),
        ] {
            assert_eq!(
                failure(true, &review(&response)),
                format!("received invalid webhook response: {text}")
            );
        }
        assert_eq!(
            failure(
                true,
                &review(&json!({ "uid": "u", "patch": "***", "patchType": "JSONPatch" }))
            ),
            "failed to call webhook: illegal base64 data at input byte 0"
        );
        let good = json!({ "uid": "u", "allowed": true, "patch": "W10=", "patchType": "JSONPatch", "warnings": ["w"] });
        let decision = decision(ReviewVersion::V1, true, "u", &review(&good)).unwrap();
        assert!(decision.allowed);
        assert_eq!(
            (&*decision.patch, &*decision.patch_type),
            (&b"[]"[..], "JSONPatch")
        );
        assert_eq!(decision.warnings, ["w"]);
    }

    #[test]
    fn v1beta1_reviews_are_lenient() {
        let old = raw(&json!({ "response": { "allowed": true, "patch": "W10=" } }));
        let decision = decision(ReviewVersion::V1Beta1, true, "u", &old).unwrap();
        assert_eq!(decision.patch_type, "JSONPatch");
    }
}
