//! Validation of the containers of a pod.

use std::collections::BTreeSet;

use kopf_sandbox_schema::field_error::{FieldError, FieldErrorKind};
use kopf_sandbox_schema::object::names;
use kopf_sandbox_schema::typing::quantity;
use serde_json::{Value, json};

use super::pods::Origin;
use super::{field, items, one_of, text};

/// Checks all containers of a pod or of a template. `volumes` are the names that mounts can refer to.
pub(super) fn check(
    spec: &Value,
    path: &str,
    origin: Origin,
    volumes: &BTreeSet<&str>,
    errors: &mut Vec<FieldError>,
) {
    if items(spec, "containers").is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut seen = BTreeSet::new();
    for list in ["containers", "initContainers"] {
        for (at, container) in items(spec, list).iter().enumerate() {
            let path = format!("{path}.{list}[{at}]");
            let name = text(container, "name");
            check_one(container, &path, volumes, errors);
            if origin == Origin::Pod {
                trimmed_image(container, &path, errors);
            }
            if !name.is_empty() && !seen.insert(name) {
                let at = format!("{path}.name");
                errors.push(FieldError::duplicate(at, &json!(name)));
            }
        }
    }
}

fn check_one(
    container: &Value,
    path: &str,
    volumes: &BTreeSet<&str>,
    errors: &mut Vec<FieldError>,
) {
    let name = text(container, "name");
    if name.is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    } else {
        for problem in names::label(name) {
            let at = format!("{path}.name");
            errors.push(FieldError::invalid(at, &json!(name), &problem));
        }
    }
    if text(container, "image").is_empty() {
        errors.push(FieldError::required(format!("{path}.image"), ""));
    }
    let policies = ["Always", "IfNotPresent", "Never"];
    one_of(container, "imagePullPolicy", path, &policies, errors);
    let policies = ["File", "FallbackToLogsOnError"];
    one_of(
        container,
        "terminationMessagePolicy",
        path,
        &policies,
        errors,
    );
    ports(container, path, errors);
    for (at, variable) in items(container, "env").iter().enumerate() {
        if text(variable, "name").is_empty() {
            errors.push(FieldError::required(format!("{path}.env[{at}].name"), ""));
        }
    }
    mounts(container, path, volumes, errors);
    resources(
        field(container, "resources"),
        &format!("{path}.resources"),
        errors,
    );
}

/// Rejects spaces around an image. A real server accepts them in templates.
fn trimmed_image(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let image = text(container, "image");
    if image != image.trim() {
        let why = "must not have leading or trailing whitespace";
        let at = format!("{path}.image");
        errors.push(FieldError::invalid(at, &json!(image), why));
    }
}

fn ports(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for (at, port) in items(container, "ports").iter().enumerate() {
        let path = format!("{path}.ports[{at}]");
        let number = field(port, "containerPort");
        if number.as_i64().unwrap_or(0) == 0 {
            errors.push(FieldError::required(format!("{path}.containerPort"), ""));
        } else {
            in_range(number, &format!("{path}.containerPort"), errors);
        }
        let name = text(port, "name");
        if !name.is_empty() && !seen.insert(name) {
            errors.push(FieldError::duplicate(format!("{path}.name"), &json!(name)));
        }
        one_of(port, "protocol", &path, &["SCTP", "TCP", "UDP"], errors);
    }
}

/// Rejects numbers outside of the range of ports.
pub(super) fn in_range(number: &Value, at: &str, errors: &mut Vec<FieldError>) {
    if !number
        .as_i64()
        .is_some_and(|number| (1..=65_535).contains(&number))
    {
        let why = "must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(at, number, why));
    }
}

fn mounts(container: &Value, path: &str, volumes: &BTreeSet<&str>, errors: &mut Vec<FieldError>) {
    let mut seen = BTreeSet::new();
    for (at, mount) in items(container, "volumeMounts").iter().enumerate() {
        let path = format!("{path}.volumeMounts[{at}]");
        let (name, target) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        } else if !volumes.contains(name) {
            let message = format!("Not found: {name:?}");
            let at = format!("{path}.name");
            errors.push(FieldError::new(FieldErrorKind::NotFound, at, message));
        }
        if target.is_empty() {
            errors.push(FieldError::required(format!("{path}.mountPath"), ""));
        } else if !seen.insert(target) {
            let at = format!("{path}.mountPath");
            let why = "must be unique";
            errors.push(FieldError::invalid(at, &json!(target), why));
        }
    }
}

/// Checks amounts of resources: not negative, and no request above its limit.
fn resources(resources: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let amounts = |of: &'static str| {
        let map = field(resources, of).as_object();
        map.into_iter().flatten().filter_map(move |(name, value)| {
            let shown = value.as_str()?;
            Some((of, name, shown, quantity::nanos(shown)?))
        })
    };
    for (of, name, shown, nanos) in amounts("limits").chain(amounts("requests")) {
        if nanos < 0 {
            let at = format!("{path}.{of}[{name}]");
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(at, &json!(shown), why));
        }
    }
    for (_, name, shown, request) in amounts("requests") {
        let limit = amounts("limits").find(|(_, other, ..)| *other == name);
        if let Some((_, _, limit, most)) = limit
            && request > most
        {
            let why = format!("must be less than or equal to {name} limit of {limit}");
            let at = format!("{path}.requests");
            errors.push(FieldError::invalid(at, &json!(shown), &why));
        }
    }
}
