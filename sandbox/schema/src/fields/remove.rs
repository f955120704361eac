//! Removal of fields from a value.

use serde_json::{Map, Value};

use super::schema::{ListKind, Schema, Shape, TypeId};
use super::{Element, FieldSet, Typed, items};

/// Returns the value without the fields of a set. A map or list that becomes empty is null.
pub fn remove(typed: Typed<'_>, set: &FieldSet) -> Value {
    if set.is_empty() {
        return typed.value.clone();
    }
    without(typed.schema, typed.of, typed.value, set)
}

fn without(schema: &Schema, of: TypeId, value: &Value, set: &FieldSet) -> Value {
    match (schema.shape(of, value), value) {
        (Shape::Map(map), Value::Object(members)) if !map.atomic => {
            let mut left = Map::new();
            for (key, value) in members {
                let value = match set.child(&Element::field(key)) {
                    Some(below) if below.member => continue,
                    Some(below) => match map.of_key(key) {
                        Some(of) => without(schema, of, value, below),
                        None => value.clone(),
                    },
                    None => value.clone(),
                };
                left.insert(key.clone(), value);
            }
            if left.is_empty() {
                Value::Null
            } else {
                Value::Object(left)
            }
        }
        (Shape::List(list), Value::Array(members)) if list.kind != ListKind::Atomic => {
            let mut left = Vec::with_capacity(members.len());
            for item in members {
                let below = items::element(schema, list, item).ok();
                left.push(match below.and_then(|element| set.child(&element)) {
                    Some(below) if below.member => continue,
                    Some(below) => without(schema, list.element, item, below),
                    None => item.clone(),
                });
            }
            if left.is_empty() {
                Value::Null
            } else {
                Value::Array(left)
            }
        }
        (Shape::Scalar(_), _) => value.clone(),
        _ => Value::Null,
    }
}

/// Returns the set with all declared fields on the paths to its members: an owner of `a.b` owns the
/// field `a`, but not the map key `a`.
pub fn named(schema: &Schema, of: TypeId, set: &FieldSet) -> FieldSet {
    let declared = schema.get(of);
    let mut found = FieldSet::default();
    found.member = set.member;
    for (element, below) in set.children() {
        let name = element.field_name();
        let field = name.and_then(|name| declared.map.as_ref()?.fields.get(name));
        let of = match (name, field) {
            (_, Some(field)) => Some(field.of),
            (Some(_), None) => declared.map.as_ref().and_then(|map| map.element),
            (None, None) if element.is_keys() => declared.list.as_ref().map(|list| list.element),
            (None, None) => None,
        };
        let mut below = match of {
            Some(of) => named(schema, of, below),
            None => below.clone(),
        };
        below.member |= field.is_some();
        found.attach(element.clone(), below);
    }
    found
}
