//! Validation of the object in a request against the path.

use std::collections::{HashMap, HashSet};

use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::object::meta;
use serde_json::Value;

use super::Call;
use crate::request::decode::{self, Decoded};
use crate::request::options::FieldValidation;
use crate::status::{ApiError, Result};

/// Validates and completes `apiVersion`, `kind`, namespace and name of the object of a request.
pub(crate) fn identify(call: &Call, object: &mut Value, body: &[u8]) -> Result<()> {
    let expected = call.api_version();
    let kind = &call.kind.kind;
    let Some(map) = object.as_object() else {
        return Err(ApiError::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {kind}: json: cannot unmarshal {} into Go value of type {}.{kind}",
            call.version,
            json_type(object),
            call.version,
        )));
    };
    let text = |field: &str| {
        map.get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let (given_version, given_kind) = (text("apiVersion"), text("kind"));
    if call.kind.is_custom() && given_kind.is_empty() {
        let body = String::from_utf8_lossy(body.get(..512.min(body.len())).unwrap_or_default());
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing in '{body}'"
        )));
    }
    let version_matters = call.kind.is_custom() || !given_version.is_empty();
    let kind_fits = call.kind.is_custom() || given_kind.is_empty() || given_kind == **kind;
    if version_matters && given_version != expected && kind_fits {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({given_version}) does not match the expected API version ({expected})"
        )));
    }
    if call.kind.is_custom() && given_kind != **kind {
        let error = FieldError::invalid(
            "kind",
            &Value::String(given_kind.clone()),
            &format!("must be {kind}"),
        );
        let name = meta::name(object);
        return Err(ApiError::invalid_named(
            &call.kind.group,
            &given_kind,
            name,
            &[error],
        ));
    }
    if !given_kind.is_empty() && given_kind != **kind {
        return Err(ApiError::bad_request(format!(
            "{given_kind} in version {:?} cannot be handled as a {kind}: no kind {given_kind:?} is registered for version {expected:?}",
            given_version.rsplit('/').next().unwrap_or_default(),
        )));
    }
    let Some(map) = object.as_object_mut() else {
        return Ok(());
    };
    map.insert("apiVersion".to_owned(), Value::String(expected));
    map.insert("kind".to_owned(), Value::String(kind.to_string()));
    if map.get("metadata").is_none_or(Value::is_null) {
        map.insert("metadata".to_owned(), Value::Object(serde_json::Map::new()));
    }
    Ok(())
}

/// Validates the namespace of the object against the path, and sets it.
pub fn place(call: &Call, object: &mut Value) -> Result<()> {
    match (&call.namespace, meta::namespace(object)) {
        (Some(wanted), Some(given)) if wanted != given => Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
        (Some(wanted), _) => {
            let wanted = wanted.clone();
            meta::set(object, "namespace", wanted);
            Ok(())
        }
        (None, _) => {
            if !call.kind.namespaced {
                // A real server removes the field instead of rejecting the object.
                meta::metadata(object).remove("namespace");
            }
            Ok(())
        }
    }
}

/// Validates the name of the object against the path, and sets it.
pub fn name(call: &Call, object: &mut Value) -> Result<()> {
    let given = meta::name(object);
    if given.is_empty() {
        meta::set(object, "name", call.name.clone());
        return Ok(());
    }
    if given == call.name {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "the name of the object ({given}) does not match the name on the URL ({})",
        call.name
    )))
}

/// Warns of unknown and duplicate fields, or rejects them in strict mode.
pub(crate) fn report(
    call: &Call,
    decoded: &Decoded,
    unknown: &[String],
    body: &[u8],
) -> Result<()> {
    let mut complaints: Vec<String> = decoded
        .complaints
        .iter()
        .cloned()
        .chain(unknown.iter().map(|path| format!("unknown field {path:?}")))
        .collect();
    if complaints.is_empty() {
        return Ok(());
    }
    if !call.kind.is_custom() && complaints.len() > 1 {
        sort_by_position(&mut complaints, body);
    }
    match call.options.field_validation {
        FieldValidation::Ignore => Ok(()),
        FieldValidation::Warn => {
            for complaint in complaints {
                call.warn(complaint);
            }
            Ok(())
        }
        FieldValidation::Strict => {
            let kind = &call.kind.kind;
            Err(ApiError::bad_request(format!(
                "{kind} in version {:?} cannot be handled as a {kind}: strict decoding error: {}",
                call.version,
                complaints.join(", ")
            )))
        }
    }
}

/// Sorts errors into the order in which the decoder of built-in kinds finds them: an unknown field
/// at its first occurrence, a duplicate one at its second. Errors of YAML have no such position.
fn sort_by_position(complaints: &mut [String], body: &[u8]) {
    let mut positions: HashMap<String, usize> = HashMap::new();
    let mut seen: HashSet<String> = HashSet::new();
    for (position, path) in decode::keys_in_order(body).into_iter().enumerate() {
        let complaint = if seen.contains(&path) {
            format!("duplicate field {path:?}")
        } else {
            format!("unknown field {path:?}")
        };
        positions.entry(complaint).or_insert(position);
        seen.insert(path);
    }
    complaints.sort_by_key(|complaint| positions.get(complaint).copied().unwrap_or_default());
}

/// Drops duplicate owner references, with a warning.
pub(crate) fn deduplicate_owners(call: &Call, object: &mut Value) {
    let Some(Value::Array(owners)) = object.pointer_mut("/metadata/ownerReferences") else {
        return;
    };
    let mut seen: HashSet<String> = HashSet::with_capacity(owners.len());
    let mut twice: Vec<String> = Vec::new();
    owners.retain(|owner| {
        let is_new = seen.insert(owner.to_string());
        if !is_new {
            let uid = owner.get("uid").and_then(Value::as_str).unwrap_or_default();
            twice.push(uid.to_owned());
        }
        is_new
    });
    if !twice.is_empty() {
        twice.dedup();
        let when = if call.is_patch {
            " after mutating admission happens"
        } else {
            ""
        };
        call.warn(format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
            twice.join(", ")
        ));
    }
}

/// Returns Go's name of the type of a JSON value.
fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
