//! The verb `patch`.

use kopf_sandbox_kinds::conform;
use kopf_sandbox_kinds::managers;
use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::object::meta;
use kopf_sandbox_schema::patch::json::JsonPatch;
use kopf_sandbox_schema::patch::{PatchError, merge, strategic};
use kopf_sandbox_schema::typing;
use serde_json::Value;

use super::{Call, Payload};
use crate::cluster::Cluster;
use crate::request::decode;
use crate::request::options::FieldValidation;
use crate::status::{ApiError, Result};

/// The types of patches, by content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    Json,
    Merge,
    Strategic,
    /// Server-side apply; its body is a configuration instead of a patch.
    Apply,
}

impl PatchType {
    /// Parses the content type of a request.
    pub fn parse(content_type: &str, kind_is_custom: bool) -> Result<Self> {
        let media = content_type.split(';').next().unwrap_or_default().trim();
        match media {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !kind_is_custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            other => {
                let accepted = if kind_is_custom {
                    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
                } else {
                    "application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml"
                };
                Err(ApiError::unsupported_media_type(format!(
                    "the body of the request was in an unknown format - accepted media types include: {accepted} (not {other:?})"
                )))
            }
        }
    }
}

/// The patch in the body of a request.
#[derive(Debug)]
pub enum Patch {
    Json(JsonPatch),
    Merge(Value),
    Strategic(Value),
}

impl Patch {
    pub fn read(patch_type: PatchType, body: &[u8]) -> Result<Self> {
        let decoded = decode::json(body).map_err(|error| match patch_type {
            PatchType::Strategic => ApiError::bad_request(error),
            _ => ApiError::bad_request(format!("error decoding patch: {error}")),
        })?;
        Ok(match patch_type {
            PatchType::Json => Self::Json(JsonPatch::decode(decoded.value)?),
            PatchType::Strategic => Self::Strategic(decoded.value),
            PatchType::Merge | PatchType::Apply => Self::Merge(decoded.value),
        })
    }
}

impl From<PatchError> for ApiError {
    fn from(error: PatchError) -> Self {
        match error {
            PatchError::BadRequest(message) => Self::bad_request(message),
            PatchError::Unprocessable(why) | PatchError::TestFailed(why) => {
                tracing::debug!(why, "the patch does not apply");
                Self::unprocessable(
                    "the server rejected our request due to an error in our request",
                )
            }
            PatchError::TooLarge(message) => Self::too_large(message),
            PatchError::Internal(message) => Self::without_reason(500, message),
        }
    }
}

impl Cluster {
    /// Applies the patch in the body to an object.
    pub async fn patch(&self, call: &Call, patch_type: PatchType, body: &[u8]) -> Result<Payload> {
        let patch = Patch::read(patch_type, body)?;
        self.change(call, |current| {
            let mut patched = match &patch {
                Patch::Json(patch) => patch.apply(current)?,
                Patch::Merge(patch) => merge::apply(current, patch)?,
                Patch::Strategic(patch) => merged(&call.kind, &call.version, current, patch)?,
            };
            managers::keep_reset(&call.kind, &mut patched);
            check_identity(call, current, &patched)?;
            let before = patched.clone();
            let shown = || match &patch {
                Patch::Strategic(patch) => strategic::shown(patch),
                Patch::Json(_) | Patch::Merge(_) => before.to_string(),
            };
            let mut unknown = match &patch {
                Patch::Json(patch) => patch.unknown.clone(),
                Patch::Merge(_) | Patch::Strategic(_) => Vec::new(),
            };
            let fields =
                conform::conform(&call.kind, &call.version, &mut patched).map_err(|mismatch| {
                    match &patch {
                        Patch::Strategic(_) => rejected(shown(), &mismatch.converted),
                        Patch::Json(_) | Patch::Merge(_) => rejected(shown(), &mismatch.text),
                    }
                })?;
            unknown.extend(
                fields
                    .into_iter()
                    .map(|path| format!("unknown field {path:?}")),
            );
            report(call, shown, unknown)?;
            Ok(patched)
        })
        .await
    }
}

/// Rejects patches that change the identity of an object.
pub(super) fn check_identity(call: &Call, current: &Value, patched: &Value) -> Result<()> {
    if !patched.is_object() {
        return Err(rejected(
            patched.to_string(),
            "the patched document is not an object",
        ));
    }
    for field in ["apiVersion", "kind"] {
        if patched.get(field) != current.get(field) {
            let given = patched.get(field).unwrap_or(&Value::Null);
            let why = format!("the patch changes {field} to {given}: the field is immutable");
            return Err(rejected(patched.to_string(), &why));
        }
    }
    if meta::name(patched) != meta::name(current) {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({}) does not match the name on the URL ({})",
            meta::name(patched),
            call.name
        )));
    }
    if meta::namespace(patched) != meta::namespace(current) {
        return Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}

/// Reports unknown fields of a patch or a patched object: a 422 in strict mode, unlike for whole
/// objects.
pub(super) fn report(call: &Call, shown: impl Fn() -> String, unknown: Vec<String>) -> Result<()> {
    match call.options.field_validation {
        FieldValidation::Strict if !unknown.is_empty() => {
            let why = format!("strict decoding error: {}", unknown.join(", "));
            return Err(rejected(shown(), &why));
        }
        FieldValidation::Warn => unknown.into_iter().for_each(|text| call.warn(text)),
        FieldValidation::Strict | FieldValidation::Ignore => {}
    }
    Ok(())
}

pub(super) fn rejected(shown: String, why: &str) -> ApiError {
    let error = FieldError::invalid("patch", &Value::String(shown), why);
    ApiError::invalid_named("", "", "", &[error])
}

/// Applies a strategic merge patch to an object of a built-in kind.
fn merged(kind: &Kind, version: &str, object: &Value, patch: &Value) -> Result<Value> {
    let types = typing::built_in();
    let root = types
        .root(&kind.api_version(version), &kind.kind)
        .ok_or_else(|| {
            ApiError::unsupported_media_type("this kind does not support strategic merge patches")
        })?;
    Ok(strategic::apply(object, patch, types, root)?)
}
