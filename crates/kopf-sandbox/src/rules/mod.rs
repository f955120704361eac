//! Validation of built-in kinds beyond their types: common errors of pods, workloads, services,
//! quotas and roles.

mod api_services;
mod containers;
mod network_policies;
mod pods;
mod quotas;
mod roles;
mod schedule;
mod services;
mod tolerations;
pub(crate) mod updates;
mod volumes;
mod workloads;

use serde_json::Value;

use crate::field_error::FieldError;
use crate::kinds::Kind;

/// Returns the errors of an object of a built-in kind, in the order of a real server.
pub(crate) fn problems(kind: &Kind, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match (&*kind.group, &*kind.plural) {
        ("", "pods") => {
            let spec = field(object, "spec");
            pods::check(spec, "spec", pods::Origin::Pod, &mut errors);
        }
        ("", "podtemplates") => {
            pods::check_template(field(object, "template"), "template", &mut errors);
        }
        ("", "services") => services::check(object, &mut errors),
        ("", "resourcequotas") => quotas::check(object, &mut errors),
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => {
            roles::check_role(&kind.plural, object, &mut errors);
        }
        ("rbac.authorization.k8s.io", _) => {
            roles::check_binding(&kind.plural, object, &mut errors);
        }
        ("apiregistration.k8s.io", "apiservices") => api_services::check(object, &mut errors),
        ("networking.k8s.io", "networkpolicies") => network_policies::check(object, &mut errors),
        ("", "replicationcontrollers")
        | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("batch", "jobs" | "cronjobs") => workloads::check(&kind.plural, object, &mut errors),
        _ => {}
    }
    errors
}

/// Returns the errors that apply only to new objects of a built-in kind.
pub(crate) fn create_problems(kind: &Kind, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match (&*kind.group, &*kind.plural) {
        ("", "pods") => pods::check_new(object, &mut errors),
        ("batch", "cronjobs") => workloads::check_new_cron_job(object, &mut errors),
        _ => {}
    }
    errors
}

/// Returns a field of an object; null if it is absent.
fn field<'a>(object: &'a Value, name: &str) -> &'a Value {
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
