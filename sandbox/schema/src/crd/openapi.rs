//! Validation of schemas in CRDs, beyond being structural.

use serde_json::Value;

use super::cost;
use crate::cel::Expression;
use crate::field_error::{FieldError, FieldErrorKind};
use crate::schema::{
    Additional, Items, Purpose, Source, TYPE_NAMES, expression_problem, leads_somewhere,
};

/// The allowed values of `reason` of a CEL rule.
const RULE_REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// Returns errors for parts of a schema that CRDs must not contain.
pub(super) fn validate(schema: Source<'_>, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let place = Place {
        is_root: true,
        in_metadata: false,
        no_defaults: None,
        unordered: None,
    };
    check(schema, path, &place, &mut errors);
    if errors.is_empty() {
        errors.extend(cost::problems(schema, path));
    }
    errors
}

/// The context of a schema.
#[derive(Clone)]
struct Place {
    is_root: bool,
    /// Inside of `metadata`, `kind` or `apiVersion` of a resource.
    in_metadata: bool,
    /// The reason why defaults are forbidden, if they are.
    no_defaults: Option<String>,
    /// The path of the outermost list whose items have no old value in transition rules.
    unordered: Option<String>,
}

fn check(schema: Source<'_>, path: &str, place: &Place, errors: &mut Vec<FieldError>) {
    keywords(schema, path, place, errors);
    if schema.flag("uniqueItems") {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(format!("{path}.uniqueItems"), detail));
    }
    inner_schemas(schema, path, place, errors);
    if schema.value("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let at = format!("{path}.x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(
            at,
            &false.into(),
            "must be true or undefined",
        ));
    }
    map_type(schema, path, errors);
    list_type(schema, path, errors);
    list_map(schema, path, errors);
    list_members(schema, path, errors);
    cel_rules(schema, path, place, errors);
}

fn inner_schemas(schema: Source<'_>, path: &str, place: &Place, errors: &mut Vec<FieldError>) {
    let inner = Place {
        is_root: false,
        ..place.clone()
    };
    let additional_path = format!("{path}.additionalProperties");
    let additional = schema.additional();
    if schema.has_properties()
        && matches!(additional, Additional::Schema(_) | Additional::Flag(false))
    {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(additional_path.clone(), detail));
    }
    if let Additional::Schema(additional) = additional {
        let mut inner = inner.clone();
        if place.in_metadata {
            let reason = "inside additionalProperties applying to object metadata";
            inner.no_defaults = Some(reason.to_owned());
        }
        check(additional, &additional_path, &inner, errors);
    }
    for (name, property) in schema.properties() {
        let mut inner = inner.clone();
        let is_resource = place.is_root || schema.is_embedded();
        if is_resource && matches!(name, "metadata" | "kind" | "apiVersion") {
            inner.in_metadata = true;
            if place.is_root {
                inner.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        check(
            property,
            &format!("{path}.properties[{name}]"),
            &inner,
            errors,
        );
    }
    if let Some(not) = schema.schema("not") {
        check(not, &format!("{path}.not"), &inner, errors);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for (index, schema) in schema.schemas(key).enumerate() {
            check(schema, &format!("{path}.{key}[{index}]"), &inner, errors);
        }
    }
    item_schemas(schema, path, inner, errors);
}

fn item_schemas(schema: Source<'_>, path: &str, inner: Place, errors: &mut Vec<FieldError>) {
    match schema.items() {
        Items::None => {}
        Items::One(items) => {
            let mut inner = inner;
            if schema.text("x-kubernetes-list-type") != "map" {
                inner.unordered.get_or_insert_with(|| path.to_owned());
            }
            check(items, &format!("{path}.items"), &inner, errors);
        }
        Items::Many(list) => {
            for (index, items) in list.iter().enumerate() {
                check(
                    Source::new(items),
                    &format!("{path}.items[{index}]"),
                    &inner,
                    errors,
                );
            }
        }
    }
}

/// Rejects keywords of JSON schema that CRDs do not support.
fn keywords(schema: Source<'_>, path: &str, place: &Place, errors: &mut Vec<FieldError>) {
    let type_name = schema.text("type");
    if !type_name.is_empty() && !TYPE_NAMES.contains(&type_name) {
        let at = format!("{path}.type");
        errors.push(FieldError::not_supported(
            at,
            &type_name.into(),
            &TYPE_NAMES,
        ));
    }
    let mut forbidden = |key: &str, detail: &str| {
        errors.push(FieldError::forbidden(format!("{path}.{key}"), detail));
    };
    if let (Some(_), Some(reason)) = (schema.value("default"), &place.no_defaults) {
        forbidden("default", &format!("must not be set {reason}"));
    }
    let keys = [
        "id",
        "additionalItems",
        "patternProperties",
        "definitions",
        "dependencies",
        "$ref",
    ];
    for key in keys {
        // Empty values of these keywords count as present; an empty `id` or map does not.
        let is_there = match key {
            "additionalItems" | "dependencies" | "$ref" => schema.value(key).is_some(),
            _ => schema.set_keys().any(|set| set == key),
        };
        if is_there {
            forbidden(key, &format!("{key} is not supported"));
        }
    }
    if type_name == "null" {
        forbidden(
            "type",
            "type cannot be set to null, use nullable as an alternative",
        );
    }
    if matches!(schema.items(), Items::Many([_, ..])) {
        forbidden("items", "items must be a schema object and not an array");
    }
    if place.in_metadata && schema.is_embedded() {
        let detail = "must not be used inside of resource meta";
        forbidden("x-kubernetes-embedded-resource", detail);
    }
}

/// Returns the error of a missing (`required`) or wrong (`invalid`) type.
fn needs_type(schema: Source<'_>, path: &str, detail: &str) -> FieldError {
    let at = format!("{path}.type");
    match schema.text("type") {
        "" => FieldError::required(at, detail),
        other => FieldError::invalid(at, &other.into(), detail),
    }
}

fn map_type(schema: Source<'_>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(map_type) = schema.value("x-kubernetes-map-type") else {
        return;
    };
    if schema.text("type") != "object" {
        let detail = "must be object if x-kubernetes-map-type is specified";
        errors.push(needs_type(schema, path, detail));
    }
    if !matches!(map_type.as_str(), Some("atomic" | "granular")) {
        let at = format!("{path}.x-kubernetes-map-type");
        errors.push(FieldError::not_supported(
            at,
            map_type,
            &["atomic", "granular"],
        ));
    }
}

fn list_type(schema: Source<'_>, path: &str, errors: &mut Vec<FieldError>) {
    let Some(list_type) = schema.value("x-kubernetes-list-type") else {
        return;
    };
    if schema.text("type") != "array" {
        let detail = "must be array if x-kubernetes-list-type is specified";
        errors.push(needs_type(schema, path, detail));
    } else if let (Some("set"), Items::One(items)) = (list_type.as_str(), schema.items()) {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let inner_list = items.value("x-kubernetes-list-type");
        let shown = inner_list.unwrap_or(&Value::Null);
        let atomic = |key: &str| items.text(key) == "atomic";
        match items.text("type") {
            "array" if inner_list.is_some() && !atomic("x-kubernetes-list-type") => {
                let at = format!("{path}.items.x-kubernetes-list-type");
                errors.push(FieldError::invalid(at, shown, detail));
            }
            "object" if !atomic("x-kubernetes-map-type") => {
                let at = format!("{path}.items.x-kubernetes-map-type");
                errors.push(FieldError::invalid(at, shown, detail));
            }
            _ => {}
        }
    }
    if !matches!(list_type.as_str(), Some("atomic" | "set" | "map")) {
        let at = format!("{path}.x-kubernetes-list-type");
        errors.push(FieldError::not_supported(
            at,
            list_type,
            &["atomic", "set", "map"],
        ));
    }
}

fn list_map(schema: Source<'_>, path: &str, errors: &mut Vec<FieldError>) {
    let keys = schema.list("x-kubernetes-list-map-keys");
    let list_type = schema.value("x-kubernetes-list-type");
    let type_path = format!("{path}.x-kubernetes-list-type");
    if !keys.is_empty() {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            None => errors.push(FieldError::required(type_path, detail)),
            Some(other) if other != "map" => {
                errors.push(FieldError::invalid(type_path, other, detail));
            }
            Some(_) => {}
        }
    }
    if list_type.is_none_or(|list_type| list_type != "map") {
        return;
    }
    let keys_path = format!("{path}.x-kubernetes-list-map-keys");
    if keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(keys_path.clone(), detail));
    }
    let items = match schema.items() {
        Items::One(items) => items,
        Items::None => {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            errors.push(FieldError::required(format!("{path}.items"), detail));
            return;
        }
        Items::Many(_) => return,
    };
    if items.text("type") != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        let at = format!("{path}.items.type");
        errors.push(FieldError::invalid(at, &items.text("type").into(), detail));
        return;
    }
    let all = Value::from(keys.to_vec());
    for (index, key) in keys.iter().enumerate() {
        let name = key.as_str().unwrap_or_default();
        match items.property(name) {
            Some(property) if matches!(property.text("type"), "array" | "object") => {
                let detail =
                    "must be a scalar type if parent array's x-kubernetes-list-type is map";
                let at = format!("{path}.items.properties[{name}].type");
                errors.push(FieldError::invalid(at, &"object".into(), detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(keys_path.clone(), &all, detail));
            }
        }
        if keys.iter().take(index).any(|earlier| earlier == key) {
            let detail = "must not contain duplicate entries";
            errors.push(FieldError::invalid(keys_path.clone(), &all, detail));
        }
    }
}

/// Checks that items of sets and maps are not nullable, and that map keys are required.
fn list_members(schema: Source<'_>, path: &str, errors: &mut Vec<FieldError>) {
    let Items::One(items) = schema.items() else {
        return;
    };
    let list_type = schema.text("x-kubernetes-list-type");
    if !matches!(list_type, "set" | "map") {
        return;
    }
    if items.flag("nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(
            format!("{path}.items.nullable"),
            &detail,
        ));
    }
    if list_type != "map" {
        return;
    }
    for key in schema.texts("x-kubernetes-list-map-keys") {
        let Some(property) = items.property(key) else {
            continue;
        };
        let at = format!("{path}.items.properties[{key}]");
        let is_required = items.texts("required").any(|required| required == key);
        if !is_required && property.value("default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default \
                          or be a required property";
            errors.push(FieldError::required(format!("{at}.default"), detail));
        }
        if property.flag("nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(format!("{at}.nullable"), detail));
        }
    }
}

/// Validates the fields of CEL rules.
fn cel_rules(schema: Source<'_>, path: &str, place: &Place, errors: &mut Vec<FieldError>) {
    let has_breaks = |text: &str| text.contains(['\n', '\r']);
    for (index, rule) in schema.schemas("x-kubernetes-validations").enumerate() {
        let at = |key: &str| format!("{path}.x-kubernetes-validations[{index}].{key}");
        let (expression, message) = (rule.text("rule").trim(), rule.text("message"));
        let trimmed = message.trim();
        if expression.is_empty() {
            errors.push(FieldError::required(at("rule"), "rule is not specified"));
        } else if !message.is_empty() && trimmed.is_empty() {
            let detail = "must be non-empty if specified";
            errors.push(FieldError::invalid(at("message"), &message.into(), detail));
        } else if has_breaks(trimmed) {
            let detail = "must not contain line breaks";
            errors.push(FieldError::invalid(at("message"), &message.into(), detail));
        } else if has_breaks(expression) && trimmed.is_empty() {
            let detail = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(at("message"), detail));
        }
        if let Some(reason) = rule.value("reason")
            && !reason
                .as_str()
                .is_some_and(|reason| RULE_REASONS.contains(&reason))
        {
            errors.push(FieldError::not_supported(
                at("reason"),
                reason,
                &RULE_REASONS,
            ));
        }
    }
    // A real server compiles expressions only if there are no other errors.
    if errors.is_empty() {
        expressions(schema, path, place, errors);
    }
}

/// Validates the expressions of CEL rules.
fn expressions(schema: Source<'_>, path: &str, place: &Place, errors: &mut Vec<FieldError>) {
    let root = path.ends_with("openAPIV3Schema");
    for (index, rule) in schema.schemas("x-kubernetes-validations").enumerate() {
        let at = |key: &str| format!("{path}.x-kubernetes-validations[{index}].{key}");
        for (key, purpose) in [
            ("rule", Purpose::Rule),
            ("messageExpression", Purpose::Message),
        ] {
            if let Some(problem) = expression_problem(schema, root, rule, purpose) {
                let message = format!("Invalid value: {}: {problem}", shown_rule(rule));
                errors.push(FieldError::new(FieldErrorKind::Invalid, at(key), message));
            }
        }
        let text = rule.text("rule");
        let uses_old = || Expression::parse(text).is_ok_and(|rule| rule.uses("oldSelf"));
        if let Some(list) = place.unordered.as_ref().filter(|_| uses_old()) {
            let detail = format!(
                "oldSelf cannot be used on the uncorrelatable portion of the schema within {list}"
            );
            errors.push(FieldError::invalid(at("rule"), &text.into(), &detail));
        }
        let field_path = rule.text("fieldPath");
        if !leads_somewhere(schema, field_path) {
            let detail = "must be a valid path";
            errors.push(FieldError::invalid(
                at("fieldPath"),
                &field_path.into(),
                detail,
            ));
        }
    }
}

/// Formats a rule as in the errors of a real server.
fn shown_rule(rule: Source<'_>) -> String {
    let null = Value::Null;
    let text = |key: &str| Value::from(rule.text(key)).to_string();
    let any = |key: &str| rule.value(key).unwrap_or(&null).to_string();
    format!(
        r#"{{"Rule":{},"Message":{},"MessageExpression":{},"Reason":{},"FieldPath":{},"OptionalOldSelf":{}}}"#,
        text("rule"),
        text("message"),
        text("messageExpression"),
        any("reason"),
        text("fieldPath"),
        any("optionalOldSelf"),
    )
    .replace('<', "\\u003c")
    .replace('>', "\\u003e")
    .replace('&', "\\u0026")
}
