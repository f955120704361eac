//! `ConversionReview`: the request, and the validation of the response.

use bytes::Bytes;
use kopf_sandbox_kinds::metadata;
use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::object::meta;
use serde_json::{Map, Value, json};

use crate::admission::{RawResponse, ReviewKind, parsed};

const CONVERSION: ReviewKind = ReviewKind {
    kind: "ConversionReview",
    group: "apiextensions.k8s.io",
};

/// The supported versions of `ConversionReview`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReviewVersion {
    V1,
    V1Beta1,
}

impl ReviewVersion {
    /// Returns the first supported version that a webhook accepts.
    pub(super) fn read(webhook: &Value) -> Option<Self> {
        let versions = webhook.get("conversionReviewVersions")?.as_array()?;
        versions.iter().find_map(|version| match version.as_str()? {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        })
    }

    fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "apiextensions.k8s.io/v1",
            Self::V1Beta1 => "apiextensions.k8s.io/v1beta1",
        }
    }
}

/// An object to convert and the `apiVersion` that it gets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) original: &'a Value,
    pub(super) wanted: &'a str,
}

/// The reason why a converted object is rejected.
#[derive(Debug)]
pub(super) enum Rejection {
    /// The number of objects is not 1.
    Count(usize),
    /// The object has no kind.
    NoObject(String),
    /// The object has another version or kind than requested.
    Type(String),
    /// The identity of the object has changed.
    Identity(String),
    /// Labels or annotations are invalid.
    Metadata(String),
}

impl Rejection {
    /// Returns the message of a real server.
    pub(super) fn message(self, what: &str) -> String {
        match self {
            Self::Count(count) => format!("{what} returned {count} objects, expected 1"),
            Self::NoObject(why) => why,
            Self::Type(why) => format!("{what} returned invalid object at index 0: {why}"),
            Self::Identity(why) => format!("{what} returned invalid object: {why}"),
            Self::Metadata(why) => format!("{what} returned invalid metadata: {why}"),
        }
    }
}

impl Pair<'_> {
    /// Returns the serialised review.
    pub(super) fn review_request(self, version: ReviewVersion, uid: &str) -> Bytes {
        let review = json!({
            "kind": "ConversionReview",
            "apiVersion": version.api_version(),
            "request": {
                "uid": uid, "desiredAPIVersion": self.wanted, "objects": [self.original],
            },
            "response": { "uid": "", "convertedObjects": null, "result": { "metadata": {} } },
        });
        Bytes::from(review.to_string())
    }

    /// Checks the converted objects of a response and returns the only one, with the metadata of the
    /// original except for labels and annotations.
    pub(super) fn accept(self, converted: Vec<Value>) -> Result<Value, Rejection> {
        let count = converted.len();
        let mut converted = converted.into_iter();
        let (Some(mut object), None) = (converted.next(), converted.next()) else {
            return Err(Rejection::Count(count));
        };
        if text(&object, "kind").is_empty() {
            let why = format!("Object 'Kind' is missing in '{object}'");
            return Err(Rejection::NoObject(why));
        }
        let given = text(&object, "apiVersion");
        if given != self.wanted {
            return Err(Rejection::Type(format!(
                "invalid groupVersion (expected {}, received {given})",
                self.wanted
            )));
        }
        let (expected, kind) = (text(self.original, "kind"), text(&object, "kind"));
        if kind != expected {
            return Err(Rejection::Type(format!(
                "invalid kind (expected {expected}, received {kind})"
            )));
        }
        same_identity(self.original, &object).map_err(Rejection::Identity)?;
        restore_metadata(self.original, &mut object).map_err(Rejection::Metadata)?;
        Ok(object)
    }
}

/// Returns the objects of a response. The error is the string that follows `conversion webhook for
/// … failed: `.
pub(super) fn converted_objects(
    version: ReviewVersion,
    uid: &str,
    response: &RawResponse,
) -> Result<Vec<Value>, String> {
    let review = parsed(CONVERSION, version.api_version(), response)?;
    if version == ReviewVersion::V1 {
        let given = (text(&review, "apiVersion"), text(&review, "kind"));
        if given != (version.api_version(), CONVERSION.kind) {
            let (api_version, kind) = given;
            let group_version = if api_version.contains('/') {
                api_version.to_owned()
            } else {
                format!("/{api_version}")
            };
            return Err(format!(
                "expected webhook response of {}, Kind=ConversionReview, got {group_version}, Kind={kind}",
                version.api_version()
            ));
        }
    }
    let response = review
        .get("response")
        .filter(|response| response.is_object())
        .ok_or("no response provided")?;
    let answered = text(response, "uid");
    if version == ReviewVersion::V1 && answered != uid {
        return Err(format!("expected response.uid={uid:?}, got {answered:?}"));
    }
    let empty = Value::Null;
    let result = response.get("result").unwrap_or(&empty);
    let status = text(result, "status");
    if status != "Success" {
        let message = text(result, "message");
        return Err(if message.is_empty() {
            format!("response.result.status was '{status}', not 'Success'")
        } else {
            message.to_owned()
        });
    }
    let objects = response.get("convertedObjects").and_then(Value::as_array);
    Ok(objects.cloned().unwrap_or_default())
}

fn same_identity(original: &Value, converted: &Value) -> Result<(), String> {
    let of = |object: &Value, field: &str| meta::text(object, field).unwrap_or_default().to_owned();
    for (field, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (expected, given) = (of(original, field), of(converted, field));
        if expected != given {
            return Err(format!("must have the same {shown}: {expected} != {given}"));
        }
    }
    Ok(())
}

/// Sets the metadata of the original, with the labels and annotations of the converted object.
fn restore_metadata(original: &Value, converted: &mut Value) -> Result<(), String> {
    let own = match converted.get_mut("metadata").map(Value::take) {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(Value::Object(own)) => own,
        Some(other) => {
            let of = go_type(&other);
            return Err(format!("invalid metadata of type {of} in converted object"));
        }
    };
    let mut metadata = match original.get("metadata") {
        Some(Value::Object(metadata)) => metadata.clone(),
        _ => Map::new(),
    };
    for field in ["labels", "annotations"] {
        match own.get(field) {
            None | Some(Value::Null) => {
                metadata.remove(field);
            }
            Some(Value::Object(given)) => {
                check_texts(field, given, metadata.get(field))?;
                metadata.insert(field.to_owned(), Value::Object(given.clone()));
            }
            Some(other) => {
                let of = go_type(other);
                return Err(format!(
                    "invalid metadata.{field} of type {of} in converted object"
                ));
            }
        }
    }
    converted["metadata"] = Value::Object(metadata);
    Ok(())
}

fn check_texts(
    field: &str,
    given: &Map<String, Value>,
    before: Option<&Value>,
) -> Result<(), String> {
    for (key, value) in given {
        if !value.is_string() {
            let of = go_type(value);
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {of} in converted object"
            ));
        }
    }
    if before.and_then(Value::as_object) == Some(given) {
        return Ok(());
    }
    let errors = metadata::text_problems(&json!({ "metadata": { field: given } }));
    match errors.as_slice() {
        [] => Ok(()),
        [only] => Err(shown(only)),
        many => {
            let all: Vec<String> = many.iter().map(shown).collect();
            Err(format!("[{}]", all.join(", ")))
        }
    }
}

fn shown(error: &FieldError) -> String {
    format!("{}: {}", error.field, error.message)
}

/// Returns Go's name of the type of a JSON value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

pub(super) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get(field)
        .and_then(Value::as_str)
        .unwrap_or_default()
}
