//! Accessors for rows: missing values and those of a wrong type are empty.

use jiff::Timestamp;
use kopf_sandbox_schema::selectors::LabelSelector;
use serde_json::{Map, Value, json};

use super::duration;

/// An object and the current time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object<'a> {
    pub(super) value: &'a Value,
    pub(super) now: Timestamp,
}

impl<'a> Object<'a> {
    /// Returns a part of the object, with the same time.
    pub(super) fn of(self, value: &'a Value) -> Self {
        Self { value, ..self }
    }

    /// Returns a value by a JSON pointer such as `/spec/replicas`.
    pub(super) fn get(self, pointer: &str) -> Option<&'a Value> {
        self.value.pointer(pointer).filter(|value| !value.is_null())
    }

    pub(super) fn has(self, pointer: &str) -> bool {
        self.get(pointer).is_some()
    }

    pub(super) fn text(self, pointer: &str) -> &'a str {
        self.get(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    pub(super) fn text_or(self, pointer: &str, other: &'a str) -> &'a str {
        Some(self.text(pointer))
            .filter(|text| !text.is_empty())
            .unwrap_or(other)
    }

    /// Formats a number or a string: for int-or-string fields and quantities.
    pub(super) fn printed(self, pointer: &str) -> Option<String> {
        self.get(pointer)
            .map(kopf_sandbox_schema::json_path::scalar_text)
    }

    pub(super) fn integer(self, pointer: &str) -> i64 {
        self.get(pointer)
            .and_then(Value::as_i64)
            .unwrap_or_default()
    }

    pub(super) fn is_true(self, pointer: &str) -> bool {
        self.get(pointer)
            .and_then(Value::as_bool)
            .unwrap_or_default()
    }

    pub(super) fn list(self, pointer: &str) -> &'a [Value] {
        self.get(pointer)
            .and_then(Value::as_array)
            .map(Vec::as_slice)
            .unwrap_or_default()
    }

    pub(super) fn items(self, pointer: &str) -> impl DoubleEndedIterator<Item = Self> {
        self.list(pointer).iter().map(move |value| self.of(value))
    }

    pub(super) fn texts(self, pointer: &str) -> Vec<&'a str> {
        self.list(pointer)
            .iter()
            .filter_map(Value::as_str)
            .collect()
    }

    pub(super) fn map(self, pointer: &str) -> Option<&'a Map<String, Value>> {
        self.get(pointer).and_then(Value::as_object)
    }

    pub(super) fn size(self, pointer: &str) -> usize {
        match self.get(pointer) {
            Some(Value::Array(items)) => items.len(),
            Some(Value::Object(fields)) => fields.len(),
            _ => 0,
        }
    }

    pub(super) fn name(self) -> Value {
        json!(self.text("/metadata/name"))
    }

    pub(super) fn annotation(self, key: &str) -> Option<&'a str> {
        self.map("/metadata/annotations")?.get(key)?.as_str()
    }

    pub(super) fn is_deleted(self) -> bool {
        self.has("/metadata/deletionTimestamp")
    }

    pub(super) fn age(self) -> Value {
        json!(
            self.since("/metadata/creationTimestamp")
                .unwrap_or_else(|| "<unknown>".to_owned())
        )
    }

    /// Formats the time since the timestamp in this field, if there is one.
    pub(super) fn since(self, pointer: &str) -> Option<String> {
        Some(duration::age(self.time(pointer)?, self.now))
    }

    pub(super) fn time(self, pointer: &str) -> Option<Timestamp> {
        self.text(pointer).parse().ok()
    }

    /// Returns `true` if a list of conditions has this one as `True`. The first of a type is used.
    pub(super) fn condition(self, pointer: &str, kind: &str) -> bool {
        let found = self
            .items(pointer)
            .find(|condition| condition.text("/type") == kind);
        found.is_some_and(|condition| condition.text("/status") == "True")
    }

    /// Returns the names and images of the containers of a pod's spec.
    pub(super) fn containers(self, pointer: &str) -> [Value; 2] {
        let joined = |field: &str| {
            let texts: Vec<&str> = self.items(pointer).map(|item| item.text(field)).collect();
            json!(texts.join(","))
        };
        [joined("/name"), joined("/image")]
    }

    /// Formats labels as `a=b,c=d`.
    pub(super) fn labels(self, pointer: &str) -> Value {
        let pairs: Vec<String> = self
            .map(pointer)
            .into_iter()
            .flatten()
            .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
            .collect();
        json!(if pairs.is_empty() {
            "<none>".to_owned()
        } else {
            pairs.join(",")
        })
    }

    /// Formats a label selector with `matchLabels` and `matchExpressions`.
    pub(super) fn selector(self, pointer: &str) -> Value {
        json!(match self.plain_selector(pointer) {
            None => "<error>".to_owned(),
            Some(text) if text.is_empty() => "<none>".to_owned(),
            Some(text) => text,
        })
    }

    /// Formats a label selector; empty if it matches everything, and `None` if it is invalid.
    pub(super) fn plain_selector(self, pointer: &str) -> Option<String> {
        let selector = self.get(pointer).unwrap_or(&Value::Null);
        LabelSelector::from_object(selector, "")
            .ok()
            .map(|selector| selector.to_string())
    }
}

/// Returns the first three items, and the number of others.
pub(super) fn first_three(texts: &[String]) -> String {
    let shown = texts.get(..3).unwrap_or(texts);
    match texts.len() - shown.len() {
        0 => shown.join(","),
        more => format!("{} + {more} more...", shown.join(",")),
    }
}
