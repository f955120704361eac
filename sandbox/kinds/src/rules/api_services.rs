//! API services.

use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::{field, text};

/// Checks that the name consists of the version and the group.
pub(crate) fn check(service: &Value, errors: &mut Vec<FieldError>) {
    let spec = field(service, "spec");
    let (version, group) = (text(spec, "version"), text(spec, "group"));
    let (name, expected) = (meta::name(service), format!("{version}.{group}"));
    if name != expected {
        let why = format!("must be `spec.version+\".\"+spec.group`: {expected:?}");
        errors.push(FieldError::invalid("metadata.name", &json!(name), &why));
    }
    if group.is_empty() && version != "v1" {
        let why = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required("spec.group", why));
    }
}
