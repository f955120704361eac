//! Validation of resource quotas.

use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::typing::quantity;
use serde_json::{Value, json};

use super::{field, items};

const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];
const OPPOSITES: [[&str; 2]; 2] = [
    ["BestEffort", "NotBestEffort"],
    ["NotTerminating", "Terminating"],
];

/// Checks a quota.
pub(crate) fn check(quota: &Value, errors: &mut Vec<FieldError>) {
    let spec = field(quota, "spec");
    let hard = field(spec, "hard").as_object();
    for (name, amount) in hard.into_iter().flatten() {
        let nanos = amount.as_str().and_then(quantity::nanos);
        if nanos.is_some_and(i128::is_negative) {
            let at = format!("spec.hard[{name}]");
            let why = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(at, amount, why));
        }
    }
    let scopes = items(spec, "scopes");
    let mut refuse = |why: &str| {
        errors.push(FieldError::invalid("spec.scopes", &json!(scopes), why));
    };
    for scope in scopes {
        if !SCOPES.iter().any(|known| scope == known) {
            refuse("unsupported scope");
        }
        let only_pods = scope == "BestEffort";
        let other = hard.into_iter().flatten().any(|(name, _)| {
            only_pods
                && matches!(
                    &**name,
                    "cpu"
                        | "memory"
                        | "requests.cpu"
                        | "requests.memory"
                        | "limits.cpu"
                        | "limits.memory"
                )
        });
        if other {
            refuse("unsupported scope applied to resource");
        }
    }
    for pair in OPPOSITES {
        if pair
            .iter()
            .all(|one| scopes.iter().any(|scope| scope == one))
        {
            refuse("conflicting scopes");
        }
    }
}
