//! Accessors for an `openAPIV3Schema`, by the rules of the real server's decoder: an absent key, a
//! null and the empty value of its type are equal.

use serde_json::Value;

/// One schema object in its JSON form.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    json: &'a Value,
}

/// `items`: either one schema or (always rejected in a CRD) a list of them.
#[derive(Debug, Clone, Copy)]
pub enum Items<'a> {
    None,
    One(Source<'a>),
    Many(&'a [Value]),
}

/// `additionalProperties`: a boolean or a schema.
#[derive(Debug, Clone, Copy)]
pub enum Additional<'a> {
    None,
    Flag(bool),
    Schema(Source<'a>),
}

impl<'a> Source<'a> {
    pub fn new(schema: &'a Value) -> Self {
        Self { json: schema }
    }

    /// Returns the schema as it was written.
    pub fn json(self) -> &'a Value {
        self.json
    }

    /// Returns the value of the key, unless it is null.
    pub fn value(self, key: &str) -> Option<&'a Value> {
        self.json.get(key).filter(|value| !value.is_null())
    }

    pub fn text(self, key: &str) -> &'a str {
        self.value(key).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn flag(self, key: &str) -> bool {
        self.value(key).and_then(Value::as_bool).unwrap_or_default()
    }

    pub fn list(self, key: &str) -> &'a [Value] {
        self.value(key)
            .and_then(Value::as_array)
            .map_or(&[], Vec::as_slice)
    }

    pub fn texts(self, key: &str) -> impl Iterator<Item = &'a str> {
        self.list(key).iter().filter_map(Value::as_str)
    }

    pub fn schemas(self, key: &str) -> impl Iterator<Item = Source<'a>> {
        self.list(key).iter().map(Source::new)
    }

    pub fn schema(self, key: &str) -> Option<Self> {
        self.value(key).map(Source::new)
    }

    pub fn properties(self) -> impl Iterator<Item = (&'a str, Source<'a>)> {
        self.named_schemas("properties")
    }

    pub(crate) fn named_schemas(
        self,
        key: &str,
    ) -> impl Iterator<Item = (&'a str, Source<'a>)> + use<'a> {
        let map = self.value(key).and_then(Value::as_object);
        map.into_iter()
            .flatten()
            .map(|(name, schema)| (name.as_str(), Source::new(schema)))
    }

    pub fn property(self, name: &str) -> Option<Self> {
        self.value("properties")?.get(name).map(Source::new)
    }

    pub(crate) fn has_properties(self) -> bool {
        self.properties().next().is_some()
    }

    pub fn items(self) -> Items<'a> {
        match self.value("items") {
            None => Items::None,
            Some(Value::Array(list)) => Items::Many(list),
            Some(schema) => Items::One(Source::new(schema)),
        }
    }

    pub fn additional(self) -> Additional<'a> {
        match self.value("additionalProperties") {
            None => Additional::None,
            Some(Value::Bool(flag)) => Additional::Flag(*flag),
            Some(schema) => Additional::Schema(Source::new(schema)),
        }
    }

    pub(crate) fn preserves_unknown(self) -> bool {
        self.flag("x-kubernetes-preserve-unknown-fields")
    }

    pub(crate) fn is_embedded(self) -> bool {
        self.flag("x-kubernetes-embedded-resource")
    }

    pub(crate) fn is_int_or_string(self) -> bool {
        self.flag("x-kubernetes-int-or-string")
    }

    /// Returns the keys whose values are not the empty value of their type.
    pub(crate) fn set_keys(self) -> impl Iterator<Item = &'a str> {
        let map = self.json.as_object();
        map.into_iter()
            .flatten()
            .filter(|(_, value)| is_set(value))
            .map(|(key, _)| key.as_str())
    }

    /// Returns `true` if the predicate holds for this schema or any subschema.
    pub fn any(self, predicate: &mut dyn FnMut(Self) -> bool) -> bool {
        if predicate(self) {
            return true;
        }
        let inner = match self.items() {
            Items::None => false,
            Items::One(schema) => schema.any(predicate),
            Items::Many(list) => list.iter().any(|schema| Source::new(schema).any(predicate)),
        };
        if inner {
            return true;
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            if self.schemas(key).any(|schema| schema.any(predicate)) {
                return true;
            }
        }
        if self
            .schema("not")
            .is_some_and(|schema| schema.any(predicate))
        {
            return true;
        }
        if self.properties().any(|(_, schema)| schema.any(predicate)) {
            return true;
        }
        matches!(self.additional(), Additional::Schema(schema) if schema.any(predicate))
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Number(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn absent_null_and_empty_are_equal() {
        let value = json!({"type": null, "title": "", "nullable": false, "required": []});
        let source = Source::new(&value);
        assert_eq!(source.text("type"), "");
        assert!(!source.flag("nullable"));
        assert_eq!(source.set_keys().count(), 0);
    }

    #[test]
    fn any_visits_all_subschemas() {
        for value in [
            json!({"items": {"title": "x"}}),
            json!({"items": [{"title": "x"}]}),
            json!({"not": {"allOf": [{"anyOf": [{"oneOf": [{"title": "x"}]}]}]}}),
            json!({"properties": {"a": {"additionalProperties": {"title": "x"}}}}),
        ] {
            assert!(
                Source::new(&value).any(&mut |schema| schema.text("title") == "x"),
                "{value}"
            );
            assert!(
                !Source::new(&value).any(&mut |schema| schema.text("title") == "y"),
                "{value}"
            );
        }
    }
}
