//! Variations of one field of a specification, from the schema of its CRD and its present values.

use std::fmt;

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::object::FieldPath;

/// Maximum number of variations of one object.
const MOST: usize = 200;
/// Maximum depth of fields.
const DEEPEST: usize = 8;

/// Another value of one field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Variation {
    /// The field.
    pub path: FieldPath,
    /// The new value; `None` removes the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

impl Variation {
    /// Returns the object with the other value.
    #[must_use]
    pub fn applied(&self, object: &Value) -> Value {
        let mut object = object.clone();
        self.path.set(&mut object, self.value.clone());
        object
    }
}

impl fmt::Display for Variation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => {
                let mut text = value.to_string();
                if text.chars().count() > 60 {
                    text = text.chars().take(59).chain(['…']).collect();
                }
                write!(f, "{} is set to {text}", self.path)
            }
            None => write!(f, "{} is removed", self.path),
        }
    }
}

/// Returns variations of the specification of an object: changed, removed and added values, bounds,
/// items and keys. `schema` is that of the whole object.
pub fn variations(object: &Value, schema: Option<&Value>) -> Vec<Variation> {
    let spec = object.get("spec");
    let schema = schema.and_then(|schema| schema.pointer("/properties/spec"));
    let mut found = Finder { found: Vec::new() };
    let path = FieldPath::default().field("spec");
    found.fields(&path, spec, schema, 0);
    found.found.truncate(MOST);
    found.found
}

struct Finder {
    found: Vec<Variation>,
}

impl Finder {
    fn add(&mut self, path: &FieldPath, value: Option<Value>) {
        let variation = Variation {
            path: path.clone(),
            value,
        };
        if !self.found.contains(&variation) {
            self.found.push(variation);
        }
    }

    fn fields(
        &mut self,
        path: &FieldPath,
        value: Option<&Value>,
        schema: Option<&Value>,
        depth: usize,
    ) {
        if depth > DEEPEST {
            return;
        }
        let empty = Map::new();
        let values = value.and_then(Value::as_object).unwrap_or(&empty);
        let declared = schema
            .and_then(|schema| schema.get("properties"))
            .and_then(Value::as_object)
            .unwrap_or(&empty);
        let required: Vec<&str> = schema
            .and_then(|schema| schema.get("required"))
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        for (name, schema) in declared {
            let path = path.field(name);
            self.one(&path, values.get(name), Some(schema), depth);
            if values.contains_key(name) && !required.contains(&name.as_str()) {
                self.add(&path, None);
            }
        }
        for (name, value) in values {
            if !declared.contains_key(name) {
                self.one(&path.field(name), Some(value), None, depth);
            }
        }
    }

    fn one(
        &mut self,
        path: &FieldPath,
        value: Option<&Value>,
        schema: Option<&Value>,
        depth: usize,
    ) {
        let declared = schema.and_then(|schema| schema.get("type"));
        let declared = declared.and_then(Value::as_str);
        let limit = |name: &str| schema.and_then(|schema| schema.get(name));
        if let Some(values) = limit("enum").and_then(Value::as_array) {
            for other in values.iter().filter(|other| Some(*other) != value) {
                self.add(path, Some(other.clone()));
            }
            return;
        }
        match (value, declared) {
            (Some(Value::Bool(value)), _) => self.add(path, Some(json!(!value))),
            (None, Some("boolean")) => self.add(path, Some(json!(true))),
            (Some(Value::Number(value)), _) => self.number(path, value.as_i64(), schema),
            (None, Some("integer" | "number")) => self.number(path, None, schema),
            (Some(Value::String(value)), _) => {
                let pattern = limit("pattern").and_then(Value::as_str);
                let fits = |other: &String| {
                    let fits = |pattern| Regex::new(pattern).is_ok_and(|one| one.is_match(other));
                    limit("format").is_none() && pattern.is_none_or(fits)
                };
                if let Some(other) = other_text(value).filter(fits) {
                    self.add(path, Some(json!(other)));
                }
            }
            (Some(Value::Array(items)), _) => self.list(path, items, schema, depth),
            (Some(Value::Object(map)), _) if limit("properties").is_none() => {
                self.map(path, map, schema, depth);
            }
            (Some(Value::Object(_)), _) => self.fields(path, value, schema, depth + 1),
            // Labels, annotations, selectors. A missing object with fields is not created: some may be required.
            (None, Some("object")) if is_map_of_texts(schema) => {
                self.add(path, Some(json!({"kopf-explore": "x"})));
            }
            _ => {}
        }
    }

    fn number(&mut self, path: &FieldPath, value: Option<i64>, schema: Option<&Value>) {
        let limit = |name: &str| {
            let schema = schema.and_then(|schema| schema.get(name));
            schema.and_then(Value::as_i64)
        };
        let (least, most) = (limit("minimum"), limit("maximum"));
        let fits = |number: &i64| {
            least.is_none_or(|least| *number >= least) && most.is_none_or(|most| *number <= most)
        };
        let near = match value {
            Some(value) => [value.checked_add(1), value.checked_sub(1)],
            None => [Some(least.unwrap_or(1)), None],
        };
        let changed = near.into_iter().flatten().filter(fits);
        // Bounds of a billion pods explore the machine, not the operator.
        let bounds = [least, most.filter(|most| *most <= 1000)];
        let all = changed.take(1).chain(bounds.into_iter().flatten());
        for number in all.filter(|number| Some(*number) != value) {
            self.add(path, Some(json!(number)));
        }
    }

    fn list(&mut self, path: &FieldPath, items: &[Value], schema: Option<&Value>, depth: usize) {
        let limit = |name: &str| {
            let schema = schema.and_then(|schema| schema.get(name));
            schema.and_then(Value::as_u64)
        };
        let count = items.len() as u64;
        if let Some(last) = items.last() {
            if limit("maxItems").is_none_or(|most| count < most) {
                let mut more = items.to_vec();
                more.push(renamed(last));
                self.add(path, Some(Value::Array(more)));
            }
            if limit("minItems").is_none_or(|least| count > least) {
                let fewer = items.get(..items.len() - 1).unwrap_or_default().to_vec();
                self.add(path, Some(Value::Array(fewer)));
            }
        }
        let inner = schema.and_then(|schema| schema.get("items"));
        if let Some(first) = items.first() {
            let path = path.index(0);
            match first {
                Value::Object(_) => self.fields(&path, Some(first), inner, depth + 1),
                first => self.one(&path, Some(first), inner, depth + 1),
            }
        }
    }

    fn map(
        &mut self,
        path: &FieldPath,
        map: &Map<String, Value>,
        schema: Option<&Value>,
        depth: usize,
    ) {
        if let Some((name, value)) = map.iter().next() {
            let mut more = map.clone();
            more.insert(format!("{name}-x"), renamed(value));
            self.add(path, Some(Value::Object(more)));
            self.add(&path.field(name), None);
        }
        let inner = schema.and_then(|schema| schema.get("additionalProperties"));
        for (name, value) in map.iter().take(3) {
            self.one(&path.field(name), Some(value), inner, depth + 1);
        }
    }
}

fn is_map_of_texts(schema: Option<&Value>) -> bool {
    let of = |pointer: &str| schema.and_then(|schema| schema.pointer(pointer));
    of("/properties").is_none()
        && of("/minProperties").is_none()
        && of("/additionalProperties/type") == Some(&json!("string"))
        && ["enum", "format", "pattern"]
            .iter()
            .all(|limit| of(&format!("/additionalProperties/{limit}")).is_none())
}

/// Returns another item of the same form.
fn renamed(item: &Value) -> Value {
    match item {
        Value::String(text) => json!(other_text(text).unwrap_or_else(|| format!("{text}-x"))),
        Value::Number(number) => json!(number.as_i64().unwrap_or_default().saturating_add(1)),
        Value::Object(map) => {
            let mut map = map.clone();
            for name in ["name", "key", "id"] {
                if let Some(Value::String(text)) = map.get(name) {
                    let other = format!("{text}-x");
                    map.insert(name.to_owned(), json!(other));
                    break;
                }
            }
            Value::Object(map)
        }
        other => other.clone(),
    }
}

/// Returns another text of the same form: a larger quantity or number, or a text with an end.
fn other_text(text: &str) -> Option<String> {
    if text.is_empty() {
        return None;
    }
    let digits = text.chars().take_while(char::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let is_unit = matches!(
        unit,
        "" | "m" | "k" | "M" | "G" | "T" | "Ki" | "Mi" | "Gi" | "Ti" | "s" | "h" | "ms"
    );
    match number.parse::<u64>() {
        Ok(number) if is_unit => Some(format!("{}{unit}", number.checked_add(1)?)),
        _ => Some(format!("{text}-x")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(object: &Value, schema: Option<&Value>) -> Vec<String> {
        let variations = variations(object, schema);
        variations.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn schema_gives_bounds_removals_and_alternatives() {
        let schema = json!({"properties": {"spec": {
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 0, "maximum": 5},
                "mode": {"type": "string", "enum": ["a", "b"]},
                "paused": {"type": "boolean"},
                "storage": {"type": "string"},
            },
        }}});
        let object = json!({"spec": {"size": 3, "mode": "a", "storage": "1Gi"}});
        assert_eq!(
            texts(&object, Some(&schema)),
            [
                "spec.mode is set to \"b\"",
                "spec.mode is removed",
                "spec.paused is set to true",
                "spec.size is set to 4",
                "spec.size is set to 0",
                "spec.size is set to 5",
                "spec.storage is set to \"2Gi\"",
                "spec.storage is removed",
            ]
        );
    }

    #[test]
    fn quantities_grow_within_their_pattern_and_missing_maps_are_added() {
        let schema = json!({"properties": {"spec": {"properties": {
            "storage": {
                "anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true,
                "pattern": "^[0-9]+(Mi|Gi)$",
            },
            "zone": {"type": "string", "pattern": "^[a-z]$"},
            "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
            "limits": {"type": "object", "additionalProperties": {"type": "integer"}},
            "template": {"type": "object", "properties": {"name": {"type": "string"}}},
        }}}});
        let object = json!({"spec": {"storage": "10Gi", "zone": "a"}});
        assert_eq!(
            texts(&object, Some(&schema)),
            [
                "spec.annotations is set to {\"kopf-explore\":\"x\"}",
                "spec.storage is set to \"11Gi\"",
                "spec.storage is removed",
                "spec.zone is removed",
            ]
        );
    }

    #[test]
    fn values_are_varied_without_a_schema() {
        let object = json!({"spec": {"list": [{"name": "a"}], "labels": {"k": "v"}, "on": true}});
        let texts = texts(&object, None);
        assert!(
            texts.contains(&"spec.on is set to false".to_owned()),
            "{texts:?}"
        );
        assert!(
            texts.contains(&"spec.list is set to []".to_owned()),
            "{texts:?}"
        );
        assert!(
            texts.contains(&"spec.labels.k is removed".to_owned()),
            "{texts:?}"
        );
        let longer = "spec.list is set to [{\"name\":\"a\"},{\"name\":\"a-x\"}]".to_owned();
        assert!(texts.contains(&longer), "{texts:?}");
    }

    #[test]
    fn variations_are_applied_to_objects() {
        let object = json!({"spec": {"size": 1}});
        let removal = Variation {
            path: FieldPath::parse("spec.size").unwrap(),
            value: None,
        };
        assert_eq!(removal.applied(&object), json!({"spec": {}}));
    }
}
