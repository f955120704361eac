//! Defaulting, and removal of nulls that the schema does not allow.

use serde_json::{Map, Value};

use super::node::{Additional, Node};

/// The treatment of nulls that the schema does not allow and has no default for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nulls {
    Drop,
    Keep,
}

/// Maximum number of bytes of defaults in one object. A larger object could not be stored.
const MOST_BYTES: usize = 4 << 20;

/// One pass over an object.
struct Run {
    nulls: Nulls,
    /// Remaining bytes of defaults.
    left: usize,
}

/// Applies the defaults of the schema to all existing parts of the object.
///
/// Defaults are skipped once the object is too large to be stored.
///
/// A null that the schema does not allow counts as absent: it becomes the default, or is removed.
/// Defaults of fields below an absent object are not applied, because that object is not created.
pub(super) fn default(node: &Node, value: &mut Value, nulls: Nulls) {
    let mut run = Run {
        nulls,
        left: MOST_BYTES,
    };
    run.value(node, value);
}

impl Run {
    fn value(&mut self, node: &Node, value: &mut Value) {
        match value {
            Value::Object(map) => self.members(node, map),
            Value::Array(list) => {
                let Some(items) = node.items.as_deref() else {
                    return;
                };
                for value in list {
                    self.replace_null(items, value);
                    self.value(items, value);
                }
            }
            _ => {}
        }
    }

    /// Returns a copy of a default, unless the limit is reached.
    fn take(&mut self, default: &Value) -> Option<Value> {
        self.left = self.left.checked_sub(weight(default))?;
        Some(default.clone())
    }

    /// Replaces a null that is not allowed by the default.
    fn replace_null(&mut self, node: &Node, value: &mut Value) {
        if let (Value::Null, false, Some(default)) = (&*value, node.nullable, &node.default)
            && let Some(default) = self.take(default)
        {
            *value = default;
        }
    }

    fn members(&mut self, node: &Node, map: &mut Map<String, Value>) {
        map.retain(|key, value| {
            self.nulls == Nulls::Keep
                || !value.is_null()
                || node
                    .of_key(key)
                    .is_none_or(|known| known.nullable || known.default.is_some())
        });
        for (name, property) in &node.properties {
            let Some(default) = &property.default else {
                continue;
            };
            match map.get_mut(name) {
                None => {
                    if let Some(default) = self.take(default) {
                        map.insert(name.clone(), default);
                    }
                }
                Some(value) => self.replace_null(property, value),
            }
        }
        for (key, value) in map {
            if let Some(property) = node.properties.get(key) {
                self.value(property, value);
            } else if let Additional::Schema(schema) = &node.additional {
                self.replace_null(schema, value);
                self.value(schema, value);
            }
        }
    }
}

/// Returns the approximate number of bytes of a value as JSON.
fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 8,
        Value::Array(list) => 8 + list.iter().map(weight).sum::<usize>(),
        Value::Object(map) => {
            let members = map.iter().map(|(key, value)| key.len() + weight(value));
            8 + members.sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::node::compile;
    use super::*;

    fn defaulted(schema: &Value, mut object: Value) -> Value {
        default(&compile(schema).unwrap(), &mut object, Nulls::Drop);
        object
    }

    #[test]
    fn defaults_cascade_into_defaults() {
        let schema = json!({"type": "object", "properties": {"spec": {
            "type": "object", "default": {},
            "properties": {
                "size": {"type": "integer", "default": 3},
                "deep": {"type": "object", "properties": {"x": {"type": "string", "default": "y"}}},
            },
        }}});
        assert_eq!(defaulted(&schema, json!({})), json!({"spec": {"size": 3}}));
        assert_eq!(
            defaulted(&schema, json!({"spec": {"size": 1, "deep": {}}})),
            json!({"spec": {"size": 1, "deep": {"x": "y"}}})
        );
    }

    #[test]
    fn nulls_are_defaulted_kept_or_dropped() {
        let schema = json!({"type": "object", "properties": {
            "with": {"type": "string", "default": "d"},
            "nullable": {"type": "string", "nullable": true, "default": "d"},
            "without": {"type": "string"},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "list": {"type": "array", "items": {"type": "string", "default": "i"}},
            "bare": {"type": "array", "items": {"type": "string"}},
        }});
        let object = json!({
            "with": null, "nullable": null, "without": null, "unknown": null,
            "map": {"a": null, "b": "x"}, "list": [null, "z"], "bare": [null],
        });
        assert_eq!(
            defaulted(&schema, object),
            json!({
                "with": "d", "nullable": null, "unknown": null,
                "map": {"b": "x"}, "list": ["i", "z"], "bare": [null],
            })
        );
    }
}
