//! The rules of structural schemas: the structure is declared outside of `allOf`, `anyOf`, `oneOf`
//! and `not`, so that it does not depend on values.

use super::node::invalid_pattern;
use super::pattern::Pattern;
use super::source::{Additional, Items, Source};
use crate::field_error::FieldError;

/// Returns the reasons why a schema is not structural, ordered by message.
pub fn structural(schema: Source<'_>, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    invariants(schema, Level::Root, path, &mut errors);
    completeness(schema, schema, path, path, &mut errors);
    errors.sort_by_cached_key(FieldError::text);
    errors
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Checks the rules for a schema in a structural position.
fn invariants(schema: Source<'_>, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let type_name = schema.text("type");
    match schema.items() {
        Items::One(items) => invariants(items, Level::Item, &format!("{path}.items"), errors),
        Items::None if type_name == "array" => {
            errors.push(FieldError::required(
                format!("{path}.items"),
                "must be specified",
            ));
        }
        Items::None | Items::Many(_) => {}
    }
    for (name, property) in schema.properties() {
        invariants(
            property,
            Level::Field,
            &format!("{path}.properties[{name}]"),
            errors,
        );
    }
    let additional = schema.additional();
    if !matches!(additional, Additional::None) && level == Level::Root {
        let detail = "must not be used at the root";
        errors.push(FieldError::forbidden(
            format!("{path}.additionalProperties"),
            detail,
        ));
    }
    if let Additional::Schema(additional) = additional {
        let at = format!("{path}.additionalProperties");
        invariants(additional, Level::Field, &at, errors);
    }
    int_or_string(schema, path, errors);
    value_rules(
        schema,
        is_either_type(schema.list("anyOf")),
        starts_with_either(schema),
        path,
        errors,
    );
    type_rules(schema, level, path, errors);
    identity(schema, level, path, errors);
}

fn int_or_string(schema: Source<'_>, path: &str, errors: &mut Vec<FieldError>) {
    if !schema.is_int_or_string() {
        return;
    }
    let detail = "must be false if x-kubernetes-int-or-string is true";
    for key in [
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-embedded-resource",
    ] {
        if schema.flag(key) {
            errors.push(FieldError::invalid(
                format!("{path}.{key}"),
                &true.into(),
                detail,
            ));
        }
    }
}

fn type_rules(schema: Source<'_>, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let type_name = schema.text("type");
    let at = format!("{path}.type");
    if schema.is_embedded() && type_name != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(if type_name.is_empty() {
            FieldError::required(at.clone(), detail)
        } else {
            FieldError::invalid(at.clone(), &type_name.into(), detail)
        });
    } else if type_name.is_empty() && !schema.is_int_or_string() && !schema.preserves_unknown() {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(at.clone(), detail));
    }
    if schema.is_embedded() && !matches!(schema.additional(), Additional::None) {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(
            format!("{path}.additionalProperties"),
            detail,
        ));
    }
    if level == Level::Root && !type_name.is_empty() && type_name != "object" {
        errors.push(FieldError::invalid(
            at,
            &type_name.into(),
            "must be object at the root",
        ));
    }
}

/// Checks `apiVersion`, `kind` and `metadata`, whose schemas can declare little.
fn identity(schema: Source<'_>, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let is_resource = level == Level::Root || schema.is_embedded();
    for key in ["kind", "apiVersion"] {
        let Some(property) = schema.property(key).filter(|_| is_resource) else {
            continue;
        };
        let type_name = property.text("type");
        if type_name != "string" {
            let at = format!("{path}.properties[{key}].type");
            errors.push(FieldError::invalid(at, &type_name.into(), "must be string"));
        }
    }
    if let Some(metadata) = schema.property("metadata") {
        let at = format!("{path}.properties[metadata]");
        let type_name = metadata.text("type");
        if is_resource && type_name != "object" {
            let at = format!("{at}.type");
            errors.push(FieldError::invalid(at, &type_name.into(), "must be object"));
        }
        if level == Level::Root && restricts_metadata(metadata) {
            let detail = "must not specify anything other than name and generateName, but metadata \
                          is implicitly specified";
            errors.push(FieldError::forbidden(at, detail));
        }
    }
    if schema.is_embedded() && !schema.preserves_unknown() && !schema.has_properties() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(format!("{path}.properties"), detail));
    }
}

fn restricts_metadata(metadata: Source<'_>) -> bool {
    let names_only = metadata
        .properties()
        .all(|(name, _)| matches!(name, "name" | "generateName"));
    let allowed = |key: &str| match key {
        "type" | "default" => true,
        "properties" => names_only,
        _ => false,
    };
    !metadata.set_keys().all(allowed)
}

/// Returns `true` for the form in which `x-kubernetes-int-or-string` may declare its types.
fn is_either_type(any_of: &[serde_json::Value]) -> bool {
    let only = |index: usize, name: &str| {
        any_of
            .get(index)
            .map(Source::new)
            .is_some_and(|schema| schema.text("type") == name && schema.set_keys().eq(["type"]))
    };
    any_of.len() == 2 && only(0, "integer") && only(1, "string")
}

fn starts_with_either(schema: Source<'_>) -> bool {
    let first = schema.list("allOf").first();
    first.is_some_and(|first| is_either_type(Source::new(first).list("anyOf")))
}

/// Checks the rules for subschemas of combinations.
fn value_rules(
    schema: Source<'_>,
    skip_any_of: bool,
    skip_in_first: bool,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    if !skip_any_of {
        for (index, nested) in schema.schemas("anyOf").enumerate() {
            nested_rules(nested, false, &format!("{path}.anyOf[{index}]"), errors);
        }
    }
    for (index, nested) in schema.schemas("allOf").enumerate() {
        let skip = skip_in_first && index == 0;
        nested_rules(nested, skip, &format!("{path}.allOf[{index}]"), errors);
    }
    for (index, nested) in schema.schemas("oneOf").enumerate() {
        nested_rules(nested, false, &format!("{path}.oneOf[{index}]"), errors);
    }
    if let Some(nested) = schema.schema("not") {
        nested_rules(nested, false, &format!("{path}.not"), errors);
    }
    let text = schema.text("pattern");
    if let Err(reason) = Pattern::compile(text) {
        errors.push(invalid_pattern(format!("{path}.pattern"), text, &reason));
    }
}

/// Keywords that are forbidden inside of combinations.
const FORBIDDEN_INSIDE: [(&str, &str); 11] = [
    ("type", "must be empty to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    (
        "x-kubernetes-preserve-unknown-fields",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-embedded-resource",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-int-or-string",
        "must be false to be structural",
    ),
    (
        "x-kubernetes-list-map-keys",
        "must be empty to be structural",
    ),
    (
        "x-kubernetes-list-type",
        "must be undefined to be structural",
    ),
    (
        "x-kubernetes-map-type",
        "must be undefined to be structural",
    ),
];

fn nested_rules(schema: Source<'_>, skip_any_of: bool, path: &str, errors: &mut Vec<FieldError>) {
    value_rules(schema, skip_any_of, false, path, errors);
    if let Items::One(items) = schema.items() {
        nested_rules(items, false, &format!("{path}.items"), errors);
    }
    for (name, property) in schema.properties() {
        nested_rules(
            property,
            false,
            &format!("{path}.properties[{name}]"),
            errors,
        );
    }
    if matches!(
        schema.additional(),
        Additional::Schema(_) | Additional::Flag(true)
    ) {
        let detail = "must be undefined to be structural";
        errors.push(FieldError::forbidden(
            format!("{path}.additionalProperties"),
            detail,
        ));
    }
    for key in schema.set_keys() {
        if let Some((key, detail)) = FORBIDDEN_INSIDE.iter().find(|(known, _)| *known == key) {
            errors.push(FieldError::forbidden(format!("{path}.{key}"), detail));
        }
    }
    if !schema.list("x-kubernetes-validations").is_empty() {
        let detail = "must be empty to be structural";
        errors.push(FieldError::forbidden(
            format!("{path}.x-kubernetes-validations"),
            detail,
        ));
    }
    if schema.property("metadata").is_some() {
        let at = format!("{path}.properties[metadata]");
        errors.push(FieldError::forbidden(
            at,
            "must not be specified in a nested context",
        ));
    }
}

/// Checks that everything declared in combinations is also declared outside of them.
fn completeness(
    value_schema: Source<'_>,
    outside: Source<'_>,
    outside_path: &str,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    if let Some(nested) = value_schema.schema("not") {
        nested_completeness(
            nested,
            outside,
            outside_path,
            &format!("{path}.not"),
            errors,
        );
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for (index, nested) in value_schema.schemas(key).enumerate() {
            let at = format!("{path}.{key}[{index}]");
            nested_completeness(nested, outside, outside_path, &at, errors);
        }
    }
}

fn nested_completeness(
    nested: Source<'_>,
    outside: Source<'_>,
    outside_path: &str,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    completeness(nested, outside, outside_path, path, errors);
    let mut inside = |nested, outside: Option<Source<'_>>, outside_path: String, path: String| {
        if let Some(outside) = outside {
            nested_completeness(nested, outside, &outside_path, &path, errors);
        } else {
            let detail = format!("because it is defined in {path}");
            errors.push(FieldError::required(outside_path, &detail));
        }
    };
    if let Items::One(items) = nested.items() {
        let outside_items = match outside.items() {
            Items::One(items) => Some(items),
            Items::None | Items::Many(_) => None,
        };
        inside(
            items,
            outside_items,
            format!("{outside_path}.items"),
            format!("{path}.items"),
        );
    }
    for (name, property) in nested.properties() {
        inside(
            property,
            outside.property(name),
            format!("{outside_path}.properties[{name}]"),
            format!("{path}.properties[{name}]"),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn texts(schema: &Value) -> Vec<String> {
        structural(Source::new(schema), "s")
            .iter()
            .map(FieldError::text)
            .collect()
    }

    #[test]
    fn types_must_be_declared_outside_of_combinations() {
        let schema = json!({"type": "object", "properties": {
            "a": {}, "b": {"type": "array"}, "c": {"type": "array", "items": {}},
            "d": {"type": "string", "allOf": [{"type": "string"}]},
        }});
        assert_eq!(
            texts(&schema),
            [
                "s.properties[a].type: Required value: must not be empty for specified object fields",
                "s.properties[b].items: Required value: must be specified",
                "s.properties[c].items.type: Required value: must not be empty for specified array items",
                "s.properties[d].allOf[0].type: Forbidden: must be empty to be structural",
            ]
        );
    }

    #[test]
    fn nested_properties_must_be_declared_outside() {
        let schema = json!({"type": "object", "anyOf": [{"properties": {"z": {"minimum": 1}}}]});
        assert_eq!(
            texts(&schema),
            ["s.properties[z]: Required value: because it is defined in s.anyOf[0].properties[z]"]
        );
    }

    #[test]
    fn int_or_string_may_spell_out_its_types() {
        let either = json!([{"type": "integer"}, {"type": "string"}]);
        let schema = json!({"type": "object", "properties": {
            "a": {"x-kubernetes-int-or-string": true},
            "b": {"x-kubernetes-int-or-string": true, "anyOf": either},
            "c": {"x-kubernetes-int-or-string": true, "allOf": [{"anyOf": either}, {"pattern": "x"}]},
        }});
        assert_eq!(texts(&schema), [""; 0]);
    }
}
