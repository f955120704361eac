//! Validation of objects against a schema, with the messages of the real server.
//!
//! The checks of one value run in a fixed order (type, combinations, string, format, numbers,
//! lists, enumerations, objects), and each counts the passed ones. When no alternative of `anyOf`
//! or `oneOf` matches, the errors of the one with the highest count are reported.

mod combine;
mod number;
mod outcome;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use self::number::Number;
use self::outcome::Outcome;
use super::list_type::identity;
use super::node::{Additional, ListType, Node, Type};
use super::path::Path;
use super::pattern::Pattern;
use crate::field_error::{FieldError, FieldErrorKind};
use crate::pattern_weight::MAX_STEPS;

/// Validates a value. `prefix` is the path of the value in its object, or empty for a whole one.
///
/// With `old`, errors of unchanged parts are tolerated.
pub(super) fn validate(
    node: &Node,
    value: &Value,
    old: Option<&Value>,
    prefix: &str,
) -> Vec<FieldError> {
    let walk = Walk {
        prefix,
        steps: Cell::new(0),
    };
    walk.part(node, value, old, &Path::Root).errors
}

/// One run of the validator.
struct Walk<'a> {
    prefix: &'a str,
    /// The steps of patterns so far.
    steps: Cell<u64>,
}

impl Walk<'_> {
    /// Validates a field, an item, or the whole value. Only errors of these can be tolerated.
    fn part(&self, node: &Node, value: &Value, old: Option<&Value>, path: &Path<'_>) -> Outcome {
        let mut outcome = self.value(node, value, old, path);
        if !outcome.errors.is_empty() && old == Some(value) {
            outcome.errors.clear();
        }
        outcome
    }

    fn value(&self, node: &Node, value: &Value, old: Option<&Value>, path: &Path<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        if value.is_null() {
            match node.type_label() {
                Some(label) if !node.nullable => {
                    outcome.add(self.wrong_type(path, label, "null"));
                }
                _ => outcome.count(1),
            }
            self.enumeration(node, value, path, &mut outcome);
            return outcome;
        }
        if node.type_label().is_some() || node.format.is_some() {
            self.type_check(node, value, path, &mut outcome);
            outcome.count(1);
        }
        outcome.merge(self.combinations(node, value, path));
        outcome.count(1);
        match value {
            Value::String(text) => {
                self.text(node, text, path, &mut outcome);
                outcome.count(1);
                if let Some(format) = node.format.filter(|format| format.is_for_text()) {
                    if !format.matches(text) {
                        let error = self.wrong_type(path, format.name(), text);
                        outcome.add(error);
                    }
                    outcome.count(1);
                }
            }
            Value::Number(_) => {
                if let Some(number) = Number::of(value) {
                    self.number(node, number, path, &mut outcome);
                    outcome.count(2);
                }
            }
            Value::Array(list) => {
                self.list(node, list, old, path, &mut outcome);
                outcome.count(2);
            }
            _ => {}
        }
        self.enumeration(node, value, path, &mut outcome);
        outcome.count(1);
        if let Value::Object(map) = value {
            self.object(node, map, old, path, &mut outcome);
            outcome.count(1);
        }
        outcome.count(1);
        outcome
    }

    fn type_check(&self, node: &Node, value: &Value, path: &Path<'_>, outcome: &mut Outcome) {
        let found = found_type(value);
        let fits = node.allows_type(found)
            || match Number::of(value) {
                Some(Number::Float(float)) => {
                    number::is_whole(float) && node.allows_type(Type::Integer)
                }
                Some(Number::Int(_)) => node.allows_type(Type::Number),
                None => false,
            };
        let is_text_or_list = matches!(value, Value::String(_) | Value::Array(_));
        if let Some(format) = node.format {
            if !is_text_or_list && !fits {
                // The server reports the format of the value instead of its type.
                let found_format = match found {
                    Type::Integer => "int64",
                    Type::Number => "float64",
                    _ => "",
                };
                if found_format != format.name() {
                    outcome.add(self.wrong_type(path, format.name(), found_format));
                    return;
                }
            }
            let numeric = node.allows_type(Type::Number) || node.allows_type(Type::Integer);
            // With a format, the server leaves strings to the check of the format, and accepts
            // lists.
            if is_text_or_list && !numeric {
                outcome.count(1);
                return;
            }
        }
        if fits {
            outcome.count(1);
        } else {
            let label = node.type_label().unwrap_or_default();
            outcome.add(self.wrong_type(path, label, found.name()));
        }
    }

    fn text(&self, node: &Node, text: &str, path: &Path<'_>, outcome: &mut Outcome) {
        let rules = &node.rules;
        if rules.min_length.is_none() && rules.max_length.is_none() && rules.pattern.is_none() {
            return;
        }
        // Only the first of these three errors is reported.
        let length = text.chars().count();
        if let Some(max) = rules.max_length.filter(|max| exceeds(length, *max)) {
            let unit = if max == 1 { "byte" } else { "bytes" };
            let message = format!("Too long: may not be more than {max} {unit}");
            outcome.add(FieldError::new(
                FieldErrorKind::TooLong,
                self.field(path),
                message,
            ));
        } else if let Some(min) = rules.min_length.filter(|min| below(length, *min)) {
            let detail = format!("should be at least {min} chars long");
            outcome.add(self.invalid(path, &text.into(), &detail));
        } else if let Some(pattern) = &rules.pattern {
            self.pattern(pattern, text, path, outcome);
        }
    }

    fn pattern(&self, pattern: &Pattern, text: &str, path: &Path<'_>, outcome: &mut Outcome) {
        let steps = pattern.weight.saturating_mul(text.len() as u64);
        self.steps.set(self.steps.get().saturating_add(steps));
        if self.steps.get() > MAX_STEPS {
            let field = self.field(path);
            let message = "Too long: the values of the object are too long for their patterns";
            outcome.add(FieldError::new(
                FieldErrorKind::TooLong,
                field,
                message.to_owned(),
            ));
        } else if !pattern.matches(text) {
            let detail = format!("should match '{}'", pattern.text);
            outcome.add(self.invalid(path, &text.into(), &detail));
        }
    }

    fn list(
        &self,
        node: &Node,
        list: &[Value],
        old: Option<&Value>,
        path: &Path<'_>,
        outcome: &mut Outcome,
    ) {
        if let Some(items) = node.items.as_deref() {
            let before = OldItems::of(node, old);
            for (index, value) in list.iter().enumerate() {
                if outcome.is_full() {
                    break;
                }
                let old = before.get(value);
                outcome.merge(self.part(items, value, old, &path.index(index)));
            }
        }
        let rules = &node.rules;
        if let Some(min) = rules.min_items.filter(|min| below(list.len(), *min)) {
            let detail = format!("should have at least {min} items");
            outcome.add(self.invalid(path, &list.len().into(), &detail));
        }
        if let Some(max) = rules.max_items.filter(|max| exceeds(list.len(), *max)) {
            outcome.add(self.too_many(path, list.len(), max));
        }
        if rules.unique_items {
            let mut seen = HashSet::with_capacity(list.len());
            if !list.iter().all(|value| seen.insert(value.to_string())) {
                outcome.add(self.invalid(path, &"".into(), "shouldn't contain duplicates"));
            }
        }
    }

    fn object(
        &self,
        node: &Node,
        map: &Map<String, Value>,
        old: Option<&Value>,
        path: &Path<'_>,
        outcome: &mut Outcome,
    ) {
        let rules = &node.rules;
        if let Some(min) = rules.min_properties.filter(|min| below(map.len(), *min)) {
            let detail = format!("should have at least {min} properties");
            outcome.add(self.invalid(path, &map.len().into(), &detail));
        }
        if let Some(max) = rules.max_properties.filter(|max| exceeds(map.len(), *max)) {
            outcome.add(self.too_many(path, map.len(), max));
        }
        match &node.additional {
            Additional::Flag(false) => {
                for key in map.keys().filter(|key| !node.properties.contains_key(*key)) {
                    let at = path.dotted();
                    let detail = format!("{at}.{key} in body is a forbidden property");
                    outcome.add(FieldError::invalid(
                        self.field(path),
                        &key.as_str().into(),
                        &detail,
                    ));
                }
            }
            Additional::Schema(schema) => {
                for (key, value) in map {
                    if !outcome.is_full() && !node.properties.contains_key(key) {
                        let old = old.and_then(|old| old.get(key));
                        outcome.merge(self.part(schema, value, old, &path.key(key)));
                    }
                }
            }
            Additional::Unspecified | Additional::Flag(true) => {}
        }
        for (name, property) in &node.properties {
            if let Some(value) = map.get(name) {
                let is_identity = path.is_root() && matches!(name.as_str(), "apiVersion" | "kind");
                let old = old.filter(|_| !is_identity).and_then(|old| old.get(name));
                outcome.merge(self.part(property, value, old, &path.field(name)));
            }
        }
        for name in rules
            .required
            .iter()
            .filter(|name| !map.contains_key(*name))
        {
            outcome.add(FieldError::required(self.field(&path.field(name)), ""));
        }
    }

    fn enumeration(&self, node: &Node, value: &Value, path: &Path<'_>, outcome: &mut Outcome) {
        let allowed = &node.rules.allowed;
        if allowed.is_empty() || allowed.iter().any(|allowed| equals(value, allowed)) {
            return;
        }
        let texts: Vec<String> = allowed
            .iter()
            .map(|value| {
                value
                    .as_str()
                    .map_or_else(|| value.to_string(), str::to_owned)
            })
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let mut error = FieldError::not_supported(self.field(path), value, &texts);
        if let Some(number) = Number::of(value) {
            error.message = error
                .message
                .replacen(&value.to_string(), &number.to_string(), 1);
        }
        outcome.add(error);
    }

    /// Returns the path for errors. The root of the whole object has its own form.
    fn field(&self, path: &Path<'_>) -> String {
        let dotted = path.dotted();
        let dotted = dotted.strip_prefix('.').unwrap_or(&dotted);
        match (self.prefix.is_empty(), dotted.is_empty()) {
            (true, true) => "<nil>".to_owned(),
            (true, false) => dotted.to_owned(),
            (false, true) => self.prefix.to_owned(),
            (false, false) => format!("{}.{dotted}", self.prefix),
        }
    }

    fn invalid(&self, path: &Path<'_>, value: &Value, detail: &str) -> FieldError {
        let detail = format!("{} in body {detail}", path.dotted());
        FieldError::invalid(self.field(path), value, &detail)
    }

    fn wrong_type(&self, path: &Path<'_>, wanted: &str, found: &str) -> FieldError {
        let detail = format!("must be of type {wanted}: {found:?}");
        let error = self.invalid(path, &found.into(), &detail);
        FieldError {
            kind: FieldErrorKind::TypeInvalid,
            ..error
        }
    }

    fn too_many(&self, path: &Path<'_>, found: usize, max: i64) -> FieldError {
        let unit = if max == 1 { "item" } else { "items" };
        let message = format!("Too many: {found}: must have at most {max} {unit}");
        FieldError::new(FieldErrorKind::TooMany, self.field(path), message)
    }

    /// Returns an error that the server reports for the whole object, regardless of the path.
    fn general(&self, detail: &str) -> FieldError {
        FieldError::invalid(self.field(&Path::Root), &"".into(), detail)
    }
}

fn found_type(value: &Value) -> Type {
    match value {
        Value::Bool(_) => Type::Boolean,
        Value::String(_) => Type::String,
        Value::Array(_) => Type::Array,
        Value::Number(_) => match Number::of(value) {
            Some(Number::Int(_)) => Type::Integer,
            _ => Type::Number,
        },
        Value::Object(_) | Value::Null => Type::Object,
    }
}

/// The items of a list before a change, by their keys. Items of lists without keys have no old
/// value.
#[derive(Debug, Default)]
pub(super) struct OldItems<'a> {
    keys: &'a [String],
    items: HashMap<String, &'a Value>,
}

impl<'a> OldItems<'a> {
    pub(super) fn of(node: &'a Node, old: Option<&'a Value>) -> Self {
        let (ListType::Map(keys), Some(Value::Array(list))) = (&node.list_type, old) else {
            return Self::default();
        };
        let mut items = HashMap::with_capacity(list.len());
        for item in list {
            // Of items with the same keys, the first is used.
            items
                .entry(identity(keys, item).to_string())
                .or_insert(item);
        }
        Self { keys, items }
    }

    /// Returns the old value of an item.
    pub(super) fn get(&self, item: &Value) -> Option<&'a Value> {
        if self.items.is_empty() {
            return None;
        }
        let key = identity(self.keys, item).to_string();
        self.items.get(&key).copied()
    }
}

fn equals(value: &Value, allowed: &Value) -> bool {
    match (Number::of(value), Number::of(allowed)) {
        (Some(value), Some(allowed)) => value.converts_to(allowed),
        _ => !value.is_null() && value == allowed,
    }
}

fn exceeds(length: usize, max: i64) -> bool {
    usize::try_from(max).is_ok_and(|max| length > max) || max < 0
}

fn below(length: usize, min: i64) -> bool {
    usize::try_from(min).is_ok_and(|min| length < min)
}
