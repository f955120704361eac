//! Reconciliation of sets that were written under another schema.

use super::schema::{ListKind, Schema, Shape, TypeId};
use super::{FieldSet, Typed};

/// Returns the set under the current schema. If a list or map has become atomic, its owners own all
/// of it. If it has ceased to be atomic, they own the field but nothing in it.
pub fn reconcile(live: Typed<'_>, set: &FieldSet) -> FieldSet {
    node(live.schema, live.of, set)
}

fn node(schema: &Schema, of: TypeId, set: &FieldSet) -> FieldSet {
    let shape = declared_shape(schema, of);
    let atomic = match shape {
        Shape::Map(map) => map.atomic,
        Shape::List(list) => list.kind == ListKind::Atomic,
        Shape::Scalar(_) | Shape::Nothing => return set.clone(),
    };
    if atomic {
        return if set.has_children() {
            FieldSet::leaf()
        } else {
            set.clone()
        };
    }
    let mut found = FieldSet::default();
    found.member = set.member;
    for (element, below) in set.children() {
        let of = match shape {
            Shape::Map(map) => element.field_name().and_then(|name| map.of_key(name)),
            Shape::List(list) => Some(list.element),
            Shape::Scalar(_) | Shape::Nothing => None,
        };
        let below = match of {
            Some(of) => node(schema, of, below),
            None => below.clone(),
        };
        found.attach(element.clone(), below);
    }
    found
}

/// Returns the shape of a type regardless of values. Open types have none: they cannot change.
fn declared_shape(schema: &Schema, of: TypeId) -> Shape<'_> {
    let declared = schema.get(of);
    match (&declared.map, declared.scalar.is_some(), &declared.list) {
        (Some(map), false, None) => Shape::Map(map),
        (None, false, Some(list)) => Shape::List(list),
        _ => Shape::Nothing,
    }
}
