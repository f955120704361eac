//! Validation of admission policies.

use kopf_sandbox_schema::cel::{Expression, Type};
use kopf_sandbox_schema::field_error::FieldError;
use kopf_sandbox_schema::object::label_rules::label_key_errors;
use kopf_sandbox_schema::object::names;
use serde_json::{Value, json};

use super::conditions::{self, Wanted, expression_problem};
use super::configuration::{list, text};
use super::policy_types::{Declared, of_policy};
use super::validation::{check_constraints, one_of};

/// Reserved words, which cannot be names of variables.
const RESERVED: [&str; 4] = ["true", "false", "null", "in"];

/// Returns the validation errors of a policy.
pub(super) fn policy_problems(policy: &Value, mutating: bool) -> Vec<FieldError> {
    let null = Value::Null;
    let spec = policy.get("spec").unwrap_or(&null);
    let mut errors = Vec::new();
    one_of(
        spec,
        "spec",
        "failurePolicy",
        &["Fail", "Ignore"],
        &mut errors,
    );
    if mutating {
        reinvocation(spec, &mut errors);
    }
    param_kind(spec.get("paramKind"), &mut errors);
    constraints(spec, &mut errors);
    let has_params = spec.get("paramKind").is_some_and(Value::is_object);
    let mut declared = of_policy(has_params);
    errors.extend(conditions::problems(
        spec.get("matchConditions"),
        "spec.matchConditions",
        &declared,
    ));
    let known = variables(spec, &mut declared, &mut errors);
    if mutating || !known.is_empty() {
        declared.push(("variables", Type::object("kubernetes.variables", known)));
    }
    validations(spec, &declared, &mut errors);
    annotations(policy, &declared, &mut errors);
    mutations(spec, &declared, &mut errors);
    nothing(spec, mutating, &mut errors);
    errors
}

fn reinvocation(spec: &Value, errors: &mut Vec<FieldError>) {
    let supported = ["IfNeeded", "Never"];
    if text(spec.get("reinvocationPolicy")).is_empty() {
        errors.push(FieldError::required("spec.reinvocationPolicy", ""));
    } else {
        one_of(spec, "spec", "reinvocationPolicy", &supported, errors);
    }
}

fn param_kind(kind: Option<&Value>, errors: &mut Vec<FieldError>) {
    let Some(kind) = kind.filter(|kind| kind.is_object()) else {
        return;
    };
    let version = text(kind.get("apiVersion"));
    let path = "spec.paramKind.apiVersion";
    if version.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {version}");
        errors.push(FieldError::invalid(path, &json!(version), &why));
    }
    let name = text(kind.get("kind"));
    let path = "spec.paramKind.kind";
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else {
        for problem in names::label_1035(&name.to_ascii_lowercase()) {
            let why = format!("may have mixed case, but should otherwise match: {problem}");
            errors.push(FieldError::invalid(path, &json!(name), &why));
        }
    }
}

fn constraints(spec: &Value, errors: &mut Vec<FieldError>) {
    let path = "spec.matchConstraints";
    let Some(constraints) = spec.get("matchConstraints").filter(|it| !it.is_null()) else {
        errors.push(FieldError::required(path, ""));
        return;
    };
    if list(constraints.get("resourceRules")).is_empty() {
        let path = "spec.matchConstraints.resourceRules";
        errors.push(FieldError::required(path, ""));
    }
    check_constraints(constraints, path, errors);
}

/// Checks the variables in sequence, and returns their types. A variable can use the ones before.
fn variables(
    spec: &Value,
    declared: &mut Declared,
    errors: &mut Vec<FieldError>,
) -> Vec<(String, Type)> {
    let mut known: Vec<(String, Type)> = Vec::new();
    for (index, variable) in list(spec.get("variables")).iter().enumerate() {
        let path = format!("spec.variables[{index}]");
        let name = text(variable.get("name"));
        let at = format!("{path}.name");
        if name.is_empty() {
            errors.push(FieldError::required(at, "name is not specified"));
        } else if !is_identifier(&name) {
            let why = "must be a valid CEL identifier";
            errors.push(FieldError::invalid(at, &json!(name), why));
        }
        let expression = text(variable.get("expression"));
        let before = Type::object("kubernetes.variables", known.clone());
        declared.push(("variables", before));
        let at = format!("{path}.expression");
        errors.extend(expression_problem(&expression, &at, declared, Wanted::Any));
        let parsed = Expression::parse(&expression);
        let of = parsed.and_then(|parsed| parsed.checked_with_objects(declared));
        declared.pop();
        known.push((name, of.unwrap_or(Type::Dyn)));
    }
    known
}

fn is_identifier(name: &str) -> bool {
    let mut characters = name.chars();
    let starts = characters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || first == '_');
    let valid = |it: char| it.is_ascii_alphanumeric() || it == '_';
    starts && characters.all(valid) && !RESERVED.contains(&name)
}

fn validations(spec: &Value, declared: &Declared, errors: &mut Vec<FieldError>) {
    let supported = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
    for (index, validation) in list(spec.get("validations")).iter().enumerate() {
        let path = format!("spec.validations[{index}]");
        let expression = text(validation.get("expression"));
        let at = format!("{path}.expression");
        errors.extend(expression_problem(&expression, &at, declared, Wanted::Bool));
        if let Some(message) = validation.get("message").and_then(Value::as_str)
            && !message.is_empty()
        {
            let why = match message.trim() {
                "" => Some("must be non-empty if specified"),
                text if text.contains(['\n', '\r']) => Some("must not contain line breaks"),
                _ => None,
            };
            let at = format!("{path}.message");
            errors.extend(why.map(|why| FieldError::invalid(at, &json!(message), why)));
        }
        message_expression(validation, &path, declared, errors);
        one_of(validation, &path, "reason", &supported, errors);
    }
}

fn message_expression(
    validation: &Value,
    path: &str,
    declared: &Declared,
    errors: &mut Vec<FieldError>,
) {
    let expression = text(validation.get("messageExpression"));
    let at = format!("{path}.messageExpression");
    if expression.is_empty() {
        return;
    }
    if expression.trim().is_empty() {
        let why = "must be non-empty if specified";
        errors.push(FieldError::invalid(at, &json!(expression), why));
        return;
    }
    let mut declared = declared.clone();
    declared.retain(|(name, _)| *name != "authorizer");
    errors.extend(expression_problem(
        &expression,
        &at,
        &declared,
        Wanted::Text,
    ));
}

fn annotations(policy: &Value, declared: &Declared, errors: &mut Vec<FieldError>) {
    let owner = text(policy.pointer("/metadata/name"));
    let annotations = list(policy.pointer("/spec/auditAnnotations"));
    for (index, annotation) in annotations.iter().enumerate() {
        let path = format!("spec.auditAnnotations[{index}]");
        let key = text(annotation.get("key"));
        let full = format!("{owner}/{key}");
        for problem in label_key_errors(&full) {
            let at = format!("{path}.key");
            errors.push(FieldError::invalid(at, &json!(full), &problem));
        }
        let mut earlier = annotations.iter().take(index);
        if earlier.any(|earlier| text(earlier.get("key")) == key) {
            errors.push(FieldError::duplicate(format!("{path}.key"), &json!(key)));
        }
        let expression = text(annotation.get("valueExpression"));
        let at = format!("{path}.valueExpression");
        if expression.trim().is_empty() {
            let detail = "valueExpression is not specified";
            errors.push(FieldError::required(at, detail));
        } else {
            errors.extend(expression_problem(
                &expression,
                &at,
                declared,
                Wanted::TextOrNull,
            ));
        }
    }
}

fn mutations(spec: &Value, declared: &Declared, errors: &mut Vec<FieldError>) {
    let kinds = [
        ("ApplyConfiguration", "applyConfiguration", Wanted::Object),
        ("JSONPatch", "jsonPatch", Wanted::Patches),
    ];
    for (index, mutation) in list(spec.get("mutations")).iter().enumerate() {
        let path = format!("spec.mutations[{index}]");
        let patch_type = text(mutation.get("patchType"));
        if patch_type.is_empty() {
            errors.push(FieldError::required(format!("{path}.patchType"), ""));
            continue;
        }
        if !kinds.iter().any(|(name, ..)| *name == patch_type) {
            let at = format!("{path}.patchType");
            let supported = ["ApplyConfiguration", "JSONPatch"];
            errors.push(FieldError::not_supported(
                at,
                &json!(patch_type),
                &supported,
            ));
            continue;
        }
        let (own, other): (Vec<_>, Vec<_>) = kinds
            .into_iter()
            .partition(|(name, ..)| *name == patch_type);
        for (_, field, wanted) in own {
            let at = format!("{path}.{field}");
            let Some(config) = mutation.get(field).filter(|it| it.is_object()) else {
                let detail = format!("must be specified when patchType is {patch_type}");
                errors.push(FieldError::required(at, &detail));
                continue;
            };
            let expression = text(config.get("expression"));
            let at = format!("{at}.expression");
            errors.extend(expression_problem(&expression, &at, declared, wanted));
        }
        for (_, field, _) in other {
            if mutation.get(field).is_some_and(Value::is_object) {
                let why = format!("must not be specified when patchType is {patch_type}");
                let shown = json!(format!("{{{field}}}"));
                errors.push(FieldError::invalid(format!("{path}.{field}"), &shown, &why));
            }
        }
    }
}

fn nothing(spec: &Value, mutating: bool, errors: &mut Vec<FieldError>) {
    let checks = ["validations", "mutations", "auditAnnotations"];
    if checks
        .iter()
        .any(|field| !list(spec.get(*field)).is_empty())
    {
        return;
    }
    if mutating {
        let detail = "mutations must contain at least one item";
        errors.push(FieldError::required("spec.mutations", detail));
        return;
    }
    let detail = "validations or auditAnnotations must contain at least one item";
    for path in ["spec.validations", "spec.auditAnnotations"] {
        errors.push(FieldError::required(path, detail));
    }
}
