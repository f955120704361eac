//! Validation of admission policies and their bindings.

use serde_json::{Value, json};

use super::conditions;
use super::configuration::{list, text};
use crate::field_error::FieldError;

/// Variables available in policy expressions.
const VARIABLES: [&str; 8] = [
    "object",
    "oldObject",
    "request",
    "params",
    "namespaceObject",
    "variables",
    "authorizer",
    "Object",
];

/// Returns the validation errors of a policy.
pub(super) fn policy_problems(policy: &Value, mutating: bool) -> Vec<FieldError> {
    let null = Value::Null;
    let spec = policy.get("spec").unwrap_or(&null);
    let mut errors = Vec::new();
    if list(spec.pointer("/matchConstraints/resourceRules")).is_empty() {
        let path = if spec.get("matchConstraints").is_none_or(Value::is_null) {
            "spec.matchConstraints"
        } else {
            "spec.matchConstraints.resourceRules"
        };
        errors.push(FieldError::required(path, ""));
    }
    errors.extend(conditions::problems(
        spec.get("matchConditions"),
        "spec.matchConditions",
        &VARIABLES,
    ));
    let expression = |value: Option<&Value>, path: String| {
        conditions::expression_problem(&text(value), &path, &VARIABLES)
    };
    for (index, variable) in list(spec.get("variables")).iter().enumerate() {
        let path = format!("spec.variables[{index}].expression");
        errors.extend(expression(variable.get("expression"), path));
    }
    for (index, validation) in list(spec.get("validations")).iter().enumerate() {
        let path = format!("spec.validations[{index}]");
        errors.extend(expression(
            validation.get("expression"),
            format!("{path}.expression"),
        ));
        if let Some(message) = validation
            .get("messageExpression")
            .filter(|it| !it.is_null())
        {
            let path = format!("{path}.messageExpression");
            errors.extend(expression(Some(message), path));
        }
    }
    for (index, mutation) in list(spec.get("mutations")).iter().enumerate() {
        let path = format!("spec.mutations[{index}]");
        match text(mutation.get("patchType")).as_str() {
            "JSONPatch" => errors.extend(expression(
                mutation.pointer("/jsonPatch/expression"),
                format!("{path}.jsonPatch.expression"),
            )),
            "ApplyConfiguration" => errors.extend(expression(
                mutation.pointer("/applyConfiguration/expression"),
                format!("{path}.applyConfiguration.expression"),
            )),
            other => errors.push(FieldError::not_supported(
                format!("{path}.patchType"),
                &json!(other),
                &["ApplyConfiguration", "JSONPatch"],
            )),
        }
    }
    let checks = list(spec.get("validations")).len()
        + list(spec.get("mutations")).len()
        + list(spec.get("auditAnnotations")).len();
    if checks == 0 {
        if mutating {
            let detail = "mutations must contain at least one item";
            errors.push(FieldError::required("spec.mutations", detail));
        } else {
            let detail = "validations or auditAnnotations must contain at least one item";
            for path in ["spec.validations", "spec.auditAnnotations"] {
                errors.push(FieldError::required(path, detail));
            }
        }
    }
    errors
}

/// Returns the validation errors of a binding.
pub(super) fn binding_problems(binding: &Value, mutating: bool) -> Vec<FieldError> {
    let null = Value::Null;
    let spec = binding.get("spec").unwrap_or(&null);
    let mut errors = Vec::new();
    if text(spec.get("policyName")).is_empty() {
        errors.push(FieldError::required("spec.policyName", ""));
    }
    if mutating {
        return errors;
    }
    let actions = list(spec.get("validationActions"));
    if actions.is_empty() {
        let detail = "at least one validation action is required";
        errors.push(FieldError::required("spec.validationActions", detail));
    }
    let names: Vec<String> = actions.iter().map(|action| text(Some(action))).collect();
    for (index, action) in names.iter().enumerate() {
        let path = format!("spec.validationActions[{index}]");
        if !["Audit", "Deny", "Warn"].contains(&action.as_str()) {
            let supported = ["Audit", "Deny", "Warn"];
            errors.push(FieldError::not_supported(path, &json!(action), &supported));
        } else if names.iter().take(index).any(|earlier| earlier == action) {
            errors.push(FieldError::duplicate(path, &json!(action)));
        }
    }
    if names.iter().any(|it| it == "Deny") && names.iter().any(|it| it == "Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(
            "spec.validationActions",
            &json!(names),
            detail,
        ));
    }
    errors
}
