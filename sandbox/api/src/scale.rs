//! The `Scale` of an object: the number of its replicas, wherever its kind keeps it.

use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::object::meta;
use kopf_sandbox_schema::selectors::LabelSelector;
use serde_json::{Value, json};

use crate::call::{Call, parse_version};
use crate::status::{ApiError, Result};

/// The paths of the numbers of replicas.
struct Paths {
    spec: String,
    status: String,
    selector: Option<String>,
}

/// Converts `.spec.replicas` to a JSON pointer.
fn pointer(path: &str) -> String {
    path.replace('.', "/")
}

fn paths(call: &Call) -> Result<Paths> {
    let version = call.kind_version()?;
    Ok(match &version.scale {
        Some(scale) => Paths {
            spec: pointer(&scale.spec_replicas),
            status: pointer(&scale.status_replicas),
            selector: scale.label_selector.as_deref().map(pointer),
        },
        None => Paths {
            spec: "/spec/replicas".to_owned(),
            status: "/status/replicas".to_owned(),
            selector: None,
        },
    })
}

/// Returns the valid number of replicas of a changed `Scale`.
pub(crate) fn checked_replicas(call: &Call, current: &Value, scale: &Value) -> Result<i64> {
    if let Some(version) = meta::text(scale, "resourceVersion").filter(|version| *version != "0") {
        let present = meta::text(current, "resourceVersion").unwrap_or_default();
        if parse_version(version)?.to_string() != present {
            return Err(ApiError::modified(&call.kind, &call.name));
        }
    }
    match meta::text(scale, "name") {
        Some(name) if name != call.name => {
            return Err(ApiError::bad_request(format!(
                "the name of the object ({name}) does not match the name on the URL ({})",
                call.name
            )));
        }
        _ => {}
    }
    let replicas = match scale.pointer("/spec/replicas") {
        None | Some(Value::Null) => 0,
        Some(value) => value.as_i64().ok_or_else(|| {
            ApiError::bad_request(
                "Scale in version \"v1\" cannot be handled as a Scale: json: cannot unmarshal into Go struct field ScaleSpec.spec.replicas of type int32",
            )
        })?,
    };
    if replicas < 0 {
        let error = FieldError::invalid(
            "spec.replicas",
            &json!(replicas),
            "must be greater than or equal to 0",
        );
        return Err(ApiError::invalid_named(
            "autoscaling",
            "Scale",
            &call.name,
            &[error],
        ));
    }
    Ok(replicas)
}

/// Returns the `Scale` document of an object.
pub(crate) fn scale_of(call: &Call, object: &Value) -> Result<Value> {
    let paths = paths(call)?;
    let number = |path: &str| object.pointer(path).and_then(Value::as_i64);
    let mut metadata = json!({});
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(text) = meta::text(object, field) {
            metadata[field] = json!(text);
        }
    }
    let mut spec = json!({});
    if let Some(replicas) = number(&paths.spec).filter(|replicas| *replicas != 0) {
        spec["replicas"] = json!(replicas);
    }
    let mut status = json!({ "replicas": number(&paths.status).unwrap_or_default() });
    if let Some(selector) = selector(&call.kind, object, paths.selector.as_deref()) {
        status["selector"] = json!(selector);
    }
    Ok(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1",
        "metadata": metadata, "spec": spec, "status": status,
    }))
}

/// Sets the number of replicas in an object.
pub(crate) fn set_replicas(call: &Call, object: &mut Value, replicas: Value) -> Result<()> {
    set(object, &paths(call)?.spec, replicas);
    Ok(())
}

/// Returns the object with the number of replicas of a scale.
pub(crate) fn with_replicas(
    call: &Call,
    object: Option<Value>,
    scale: Option<&Value>,
) -> Result<Option<Value>> {
    let (Some(mut object), Some(scale)) = (object, scale) else {
        return Ok(None);
    };
    let replicas = checked_replicas(call, &object, scale)?;
    set(&mut object, &paths(call)?.spec, json!(replicas));
    Ok(Some(object))
}

fn selector(kind: &Kind, object: &Value, path: Option<&str>) -> Option<String> {
    if kind.is_custom() {
        return object.pointer(path?)?.as_str().map(str::to_owned);
    }
    let selector = object.pointer("/spec/selector")?;
    let parsed = if &*kind.plural == "replicationcontrollers" {
        LabelSelector::from_object(&json!({ "matchLabels": selector }), "spec.selector")
    } else {
        LabelSelector::from_object(selector, "spec.selector")
    };
    parsed
        .ok()
        .map(|selector| selector.to_string())
        .filter(|text| !text.is_empty())
}

/// Sets a value by its JSON pointer, and creates the objects on its path.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let mut steps = pointer.split('/').skip(1).peekable();
    let mut place = object;
    while let Some(step) = steps.next() {
        if steps.peek().is_none() {
            if let Some(map) = place.as_object_mut() {
                map.insert(step.to_owned(), value);
            }
            return;
        }
        meta::entry(place, step);
        match place.get_mut(step) {
            Some(next) => place = next,
            None => return,
        }
    }
}
