//! Collection of the fields of a value.

use std::collections::BTreeMap;

use serde_json::Value;

use super::schema::{ListKind, Schema, Shape, TypeId};
use super::{FieldSet, Typed, items};

/// Returns the set of all fields of a value.
pub fn collect(typed: Typed<'_>) -> FieldSet {
    fields(typed.schema, typed.of, typed.value)
}

fn fields(schema: &Schema, of: TypeId, value: &Value) -> FieldSet {
    let mut set = FieldSet::default();
    match (schema.shape(of, value), value) {
        (Shape::Map(map), Value::Object(members)) => {
            if map.atomic {
                return FieldSet::leaf();
            }
            for (key, value) in members {
                let Some(of) = map.of_key(key) else {
                    continue;
                };
                let mut below = fields(schema, of, value);
                let hollow =
                    value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                below.member |= hollow || !map.has_field(key);
                set.attach(super::Element::field(key), below);
            }
        }
        (Shape::List(list), Value::Array(members)) => {
            if list.kind == ListKind::Atomic {
                return FieldSet::leaf();
            }
            let named = items::named(schema, list, members);
            let mut times: BTreeMap<&super::Element, usize> = BTreeMap::new();
            for (element, _) in &named {
                *times.entry(element).or_default() += 1;
            }
            for (element, item) in &named {
                // Duplicates are owned only as a whole.
                let mut below = match times.get(element) {
                    Some(1) => fields(schema, list.element, item),
                    _ => FieldSet::default(),
                };
                below.member = true;
                set.attach(element.clone(), below);
            }
        }
        // Null where a map is expected: the caller decides.
        (Shape::Map(_) | Shape::Nothing, _) => {}
        (Shape::List(list), _) => set.member = list.kind == ListKind::Atomic,
        (Shape::Scalar(_), _) => set.member = true,
    }
    set
}
