//! Validation of network policies.

use kopf_sandbox_schema::field_error::FieldError;
use serde_json::Value;

use super::{containers, field, items};

/// Checks the ports of a policy.
pub(crate) fn check(policy: &Value, errors: &mut Vec<FieldError>) {
    let spec = field(policy, "spec");
    for direction in ["ingress", "egress"] {
        for (rule_at, rule) in items(spec, direction).iter().enumerate() {
            for (at, port) in items(rule, "ports").iter().enumerate() {
                let path = format!("spec.{direction}[{rule_at}].ports[{at}]");
                check_port(port, &path, errors);
            }
        }
    }
}

fn check_port(port: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let (first, last) = (field(port, "port"), field(port, "endPort"));
    if first.is_number() {
        containers::in_range(first, &format!("{path}.port"), errors);
    }
    let Some(end) = last.as_i64() else {
        return;
    };
    let at = format!("{path}.endPort");
    match first {
        Value::Number(_) if first.as_i64().is_some_and(|first| end < first) => {
            let why = "must be greater than or equal to `port`";
            errors.push(FieldError::invalid(&*at, first, why));
        }
        Value::Number(_) => containers::in_range(last, &at, errors),
        Value::Null => {
            let why = "may not be specified when `port` is not specified";
            errors.push(FieldError::invalid(&*at, last, why));
        }
        _ => {
            let why = "may not be specified when `port` is non-numeric";
            errors.push(FieldError::invalid(&*at, last, why));
        }
    }
}
