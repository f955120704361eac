//! Validation of built-in kinds beyond their types: common errors of pods, workloads, services,
//! quotas and roles.

pub(crate) mod api_services;
mod containers;
pub(crate) mod data;
pub(crate) mod network_policies;
pub(crate) mod pods;
pub(crate) mod quotas;
pub(crate) mod roles;
mod schedule;
pub(crate) mod services;
mod tolerations;
pub mod updates;
mod volumes;
pub(crate) mod workloads;

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::Value;

/// Returns a field of an object; null if it is absent.
pub(crate) fn field<'a>(object: &'a Value, name: &str) -> &'a Value {
    object.get(name).unwrap_or(&Value::Null)
}

fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    field(object, name).as_str().unwrap_or_default()
}

fn items<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    field(object, name).as_array().map_or(&[], Vec::as_slice)
}

/// Rejects values outside of a set.
fn one_of(
    object: &Value,
    name: &str,
    path: &str,
    supported: &[&str],
    errors: &mut Vec<FieldError>,
) {
    let value = text(object, name);
    if !value.is_empty() && !supported.contains(&value) {
        let at = format!("{path}.{name}");
        errors.push(FieldError::not_supported(
            at,
            field(object, name),
            supported,
        ));
    }
}

/// Rejects negative numbers.
fn not_negative(object: &Value, name: &str, path: &str, errors: &mut Vec<FieldError>) {
    if field(object, name).as_i64().is_some_and(i64::is_negative) {
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(
            format!("{path}.{name}"),
            field(object, name),
            why,
        ));
    }
}

#[cfg(test)]
mod tests;
