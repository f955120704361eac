//! Comparison of two values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::schema::{List, ListKind, Map, Schema, Shape, TypeId};
use super::{Element, FieldSet, items};

/// The differences from one value to another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    pub removed: FieldSet,
    pub modified: FieldSet,
    pub added: FieldSet,
}

impl Comparison {
    /// Returns the differences without those at or below some paths.
    #[must_use]
    pub fn without(&self, ignored: &FieldSet) -> Self {
        Self {
            removed: self.removed.recursive_difference(ignored),
            modified: self.modified.recursive_difference(ignored),
            added: self.added.recursive_difference(ignored),
        }
    }

    fn attach(&mut self, element: &Element, below: Self) {
        self.removed.attach(element.clone(), below.removed);
        self.modified.attach(element.clone(), below.modified);
        self.added.attach(element.clone(), below.added);
    }

    fn note(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, Some(_)) => self.added.member = true,
            (Some(_), None) => self.removed.member = true,
            (Some(old), Some(new)) if old != new => self.modified.member = true,
            _ => {}
        }
    }
}

/// Returns the differences of `new` from `old`.
pub fn compare(schema: &Schema, of: TypeId, old: &Value, new: &Value) -> Comparison {
    values(schema, of, Some(old), Some(new))
}

fn values(schema: &Schema, of: TypeId, old: Option<&Value>, new: Option<&Value>) -> Comparison {
    let shape = |value: &Value| schema.shape(of, value);
    match (old, new) {
        (None, None) => Comparison::default(),
        // Large parts of most objects are unchanged.
        (Some(old), Some(new)) if old == new => Comparison::default(),
        (Some(old_value), Some(new_value))
            if !old_value.is_null()
                && !new_value.is_null()
                && !shape(old_value).is_like(shape(new_value)) =>
        {
            let mut both = of_shape(schema, shape(old_value), old, new);
            let other = of_shape(schema, shape(new_value), old, new);
            both.removed = both.removed.union(&other.removed);
            both.modified = both.modified.union(&other.modified);
            both.added = both.added.union(&other.added);
            both
        }
        (_, Some(value)) if !value.is_null() => of_shape(schema, shape(value), old, new),
        (Some(value), _) | (None, Some(value)) => of_shape(schema, shape(value), old, new),
    }
}

fn of_shape(
    schema: &Schema,
    shape: Shape<'_>,
    old: Option<&Value>,
    new: Option<&Value>,
) -> Comparison {
    let leaf = || {
        let mut found = Comparison::default();
        found.note(old, new);
        found
    };
    let mut found = match shape {
        Shape::Scalar(_) | Shape::Nothing => return leaf(),
        Shape::Map(map) => {
            let hollow = |value: Option<&Value>| {
                value
                    .and_then(Value::as_object)
                    .is_none_or(serde_json::Map::is_empty)
            };
            if map.atomic || (hollow(old) && hollow(new)) {
                return leaf();
            }
            maps(schema, map, old, new)
        }
        Shape::List(list) => {
            let hollow = |value: Option<&Value>| {
                value
                    .and_then(Value::as_array)
                    .is_none_or(std::vec::Vec::is_empty)
            };
            if list.kind == ListKind::Atomic || (hollow(old) && hollow(new)) {
                return leaf();
            }
            lists(schema, list, old, new)
        }
    };
    match (old, new) {
        (None, _) => found.added.member = true,
        (_, None) => found.removed.member = true,
        _ => {}
    }
    found
}

fn maps(schema: &Schema, map: &Map, old: Option<&Value>, new: Option<&Value>) -> Comparison {
    let empty = serde_json::Map::new();
    let old = old.and_then(Value::as_object).unwrap_or(&empty);
    let new = new.and_then(Value::as_object).unwrap_or(&empty);
    let mut found = Comparison::default();
    for (key, was) in old {
        if let Some(of) = map.of_key(key) {
            let below = values(schema, of, Some(was), new.get(key));
            found.attach(&Element::field(key), below);
        }
    }
    for (key, is) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
        if let Some(of) = map.of_key(key) {
            found.attach(&Element::field(key), values(schema, of, None, Some(is)));
        }
    }
    found
}

fn lists(schema: &Schema, list: &List, old: Option<&Value>, new: Option<&Value>) -> Comparison {
    let by_element = |value: Option<&'_ Value>| -> BTreeMap<Element, Vec<Value>> {
        let members = value.and_then(Value::as_array);
        let mut found: BTreeMap<Element, Vec<Value>> = BTreeMap::new();
        for (element, item) in items::named(schema, list, members.map_or(&[], Vec::as_slice)) {
            found.entry(element).or_default().push(item.clone());
        }
        found
    };
    let (old, new) = (by_element(old), by_element(new));
    let elements: BTreeSet<&Element> = old.keys().chain(new.keys()).collect();
    let mut found = Comparison::default();
    for element in elements {
        let was = old.get(element).map_or(&[][..], Vec::as_slice);
        let is = new.get(element).map_or(&[][..], Vec::as_slice);
        let below = if was.len() <= 1 && is.len() <= 1 {
            values(schema, list.element, was.first(), is.first())
        } else {
            // Duplicates are compared as a whole.
            let mut below = Comparison::default();
            match (was.is_empty(), is.is_empty()) {
                (true, _) => below.added.member = true,
                (_, true) => below.removed.member = true,
                _ => below.modified.member = was != is,
            }
            below
        };
        found.attach(element, below);
    }
    found
}
