//! Validation of bindings of admission policies.

use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::object::names;
use serde_json::{Value, json};

use super::configuration::{list, text};
use super::validation::check_constraints;

/// Returns the validation errors of a binding.
pub(super) fn binding_problems(binding: &Value, mutating: bool) -> Vec<FieldError> {
    let null = Value::Null;
    let spec = binding.get("spec").unwrap_or(&null);
    let mut errors = Vec::new();
    let name = text(spec.get("policyName"));
    if name.is_empty() {
        errors.push(FieldError::required("spec.policyName", ""));
    } else {
        for problem in names::subdomain(&name) {
            errors.push(FieldError::invalid(
                "spec.policyName",
                &json!(name),
                &problem,
            ));
        }
    }
    param_ref(spec.get("paramRef"), &mut errors);
    if let Some(resources) = spec.get("matchResources").filter(|it| it.is_object()) {
        check_constraints(resources, "spec.matchResources", &mut errors);
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

fn param_ref(reference: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(reference) = reference.filter(|it| it.is_object()) else {
        return;
    };
    let named = !text(reference.get("name")).is_empty();
    let selected = reference.get("selector").is_some_and(Value::is_object);
    if named && selected {
        let detail = "name and selector are mutually exclusive";
        for path in ["spec.paramRef.name", "spec.paramRef.selector"] {
            errors.push(FieldError::forbidden(path, detail));
        }
    } else if !named && !selected {
        let detail = "one of name or selector must be specified";
        errors.push(FieldError::required("spec.paramRef", detail));
    }
    let action = text(reference.get("parameterNotFoundAction"));
    let path = "spec.paramRef.parameterNotFoundAction";
    let supported = ["Deny", "Allow"];
    if action.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !supported.contains(&action.as_str()) {
        errors.push(FieldError::not_supported(path, &json!(action), &supported));
    }
}
