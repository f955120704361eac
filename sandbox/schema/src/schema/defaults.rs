//! Validation of the defaults of a schema: each must match its schema.

use serde_json::Value;

use super::node::{Node, compile};
use super::path::Path;
use super::prune;
use super::source::{Items, Source};
use super::{embedded, validate};
use crate::field_error::FieldError;

/// Returns errors for invalid defaults. The schema must be structural.
pub fn defaults(schema: Source<'_>, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    check(schema, path, &mut errors);
    errors
}

fn check(schema: Source<'_>, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(default) = schema.value("default")
        && let Ok(node) = compile(schema.json())
    {
        default_rules(&node, default, &format!("{path}.default"), errors);
    }
    if let Items::One(items) = schema.items() {
        check(items, &format!("{path}.items"), errors);
    }
    for (name, property) in schema.properties() {
        check(property, &format!("{path}.properties[{name}]"), errors);
    }
}

fn default_rules(node: &Node, default: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let mut pruned = default.clone();
    prune::prune_part(node, &mut pruned);
    if pruned != *default {
        errors.push(FieldError::invalid(
            at,
            default,
            "must not have unknown fields",
        ));
    }
    let mut inside = Vec::new();
    embedded::validate(node, default, &Path::Root.field(at), &mut inside);
    if inside.is_empty() {
        inside = validate::validate(node, default, None, at);
    }
    errors.extend(inside);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_must_match_their_schema() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "integer", "default": "x"},
            "b": {"type": "object", "default": {"x": 1}},
            "c": {"type": "object", "default": {}, "required": ["d"], "properties": {"d": {"type": "string"}}},
            "e": {"type": "array", "items": {"type": "string", "default": 1}},
            "f": {"type": "string", "default": "fine"},
        }});
        let texts: Vec<String> = defaults(Source::new(&schema), "s")
            .iter()
            .map(FieldError::text)
            .collect();
        assert_eq!(
            texts,
            [
                r#"s.properties[a].default: Invalid value: "string":  in body must be of type integer: "string""#,
                r#"s.properties[b].default: Invalid value: {"x":1}: must not have unknown fields"#,
                "s.properties[c].default.d: Required value",
                r#"s.properties[e].items.default: Invalid value: "integer":  in body must be of type string: "integer""#,
            ]
        );
    }
}
