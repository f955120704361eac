//! Validation of services.

use std::collections::BTreeSet;

use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::object::names;
use serde_json::{Value, json};

use super::{containers, field, items, one_of, text};

/// Checks a service.
pub(crate) fn check(service: &Value, errors: &mut Vec<FieldError>) {
    let spec = field(service, "spec");
    let types = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    one_of(spec, "type", "spec", &types, errors);
    let ports = items(spec, "ports");
    let kind = text(spec, "type");
    let headless = text(spec, "clusterIP") == "None";
    if ports.is_empty() && !headless && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    if kind == "ExternalName" && text(spec, "externalName").is_empty() {
        errors.push(FieldError::required("spec.externalName", ""));
    }
    let mut seen = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let path = format!("spec.ports[{at}]");
        let name = text(port, "name");
        if name.is_empty() && ports.len() > 1 {
            errors.push(FieldError::required(format!("{path}.name"), ""));
        } else if !name.is_empty() {
            for problem in names::label(name) {
                let at = format!("{path}.name");
                errors.push(FieldError::invalid(at, &json!(name), &problem));
            }
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(format!("{path}.name"), &json!(name)));
            }
        }
        containers::in_range(field(port, "port"), &format!("{path}.port"), errors);
        if field(port, "targetPort").is_number() {
            let at = format!("{path}.targetPort");
            containers::in_range(field(port, "targetPort"), &at, errors);
        }
        one_of(port, "protocol", &path, &["SCTP", "TCP", "UDP"], errors);
        let node_port = field(port, "nodePort").as_u64().unwrap_or(0);
        if node_port != 0 && matches!(kind, "ClusterIP" | "") {
            let why = "may not be used when `type` is 'ClusterIP'";
            errors.push(FieldError::forbidden(format!("{path}.nodePort"), why));
        }
    }
    one_of(
        spec,
        "sessionAffinity",
        "spec",
        &["ClientIP", "None"],
        errors,
    );
}
