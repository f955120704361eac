//! Merging of two values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::schema::{List, ListKind, Map, Schema, Shape, TypeId};
use super::{Element, items};

/// Returns `live` overlaid with `config`.
pub fn merge(schema: &Schema, of: TypeId, live: &Value, config: &Value) -> Value {
    values(schema, of, Some(live), Some(config)).unwrap_or(Value::Null)
}

fn values(
    schema: &Schema,
    of: TypeId,
    live: Option<&Value>,
    config: Option<&Value>,
) -> Option<Value> {
    let top = config.or(live)?;
    let decisive = if top.is_null() {
        live.unwrap_or(top)
    } else {
        top
    };
    let leaf = || config.or(live).cloned();
    match schema.shape(of, decisive) {
        Shape::Scalar(_) | Shape::Nothing => leaf(),
        Shape::Map(map) => {
            let (lower, upper) = (
                live.and_then(Value::as_object),
                config.and_then(Value::as_object),
            );
            let hollow = lower.is_none_or(serde_json::Map::is_empty)
                && upper.is_none_or(serde_json::Map::is_empty);
            if map.atomic || hollow {
                return leaf();
            }
            let merged = maps(schema, map, lower, upper);
            (!merged.is_empty()).then_some(Value::Object(merged))
        }
        Shape::List(list) => {
            let (lower, upper) = (
                live.and_then(Value::as_array),
                config.and_then(Value::as_array),
            );
            let hollow = lower.is_none_or(Vec::is_empty) && upper.is_none_or(Vec::is_empty);
            if list.kind == ListKind::Atomic || hollow {
                return leaf();
            }
            let slice = |list: Option<&Vec<Value>>| list.cloned().unwrap_or_default();
            let merged = lists(schema, list, &slice(lower), &slice(upper));
            (!merged.is_empty()).then_some(Value::Array(merged))
        }
    }
}

fn maps(
    schema: &Schema,
    map: &Map,
    live: Option<&serde_json::Map<String, Value>>,
    config: Option<&serde_json::Map<String, Value>>,
) -> serde_json::Map<String, Value> {
    let empty = serde_json::Map::new();
    let (live, config) = (live.unwrap_or(&empty), config.unwrap_or(&empty));
    let keys: BTreeSet<&String> = live.keys().chain(config.keys()).collect();
    let mut merged = serde_json::Map::new();
    for key in keys {
        let (lower, upper) = (live.get(key), config.get(key));
        let value = match map.of_key(key) {
            Some(of) => values(schema, of, lower, upper),
            None => upper.or(lower).cloned(),
        };
        if let Some(value) = value {
            merged.insert(key.clone(), value);
        }
    }
    merged
}

/// Merges lists item by item. Items keep the order of `config`; items that only `live` has keep their
/// place relative to those that both have.
fn lists(schema: &Schema, list: &List, live: &[Value], config: &[Value]) -> Vec<Value> {
    let lower = items::named(schema, list, live);
    let upper = items::named(schema, list, config);
    let in_live = index(&lower);
    let in_config = index(&upper);
    let mut shared = upper
        .iter()
        .map(|(element, _)| element)
        .filter(|element| in_live.contains_key(element));
    let mut next_shared = shared.next();
    let mut merged = Vec::new();
    let mut done: BTreeSet<&Element> = BTreeSet::new();
    let mut add = |lower: Option<&Value>, upper: Option<&Value>| {
        merged.extend(values(schema, list.element, lower, upper));
    };
    let (mut at_live, mut at_config) = (0_usize, 0_usize);
    loop {
        let (next_live, next_config) = (lower.get(at_live), upper.get(at_config));
        if next_live.is_none() && next_config.is_none() {
            return merged;
        }
        if let (Some((mine, _)), Some((theirs, _))) = (next_live, next_config) {
            let wanted_later = next_shared.is_some_and(|next| next != mine);
            if mine != theirs && in_config.contains_key(mine) && wanted_later {
                // Both have it, and it follows later in `config`.
                at_live += 1;
                continue;
            }
        }
        if let Some((element, item)) = next_live
            && next_config.is_none_or(|(theirs, _)| theirs != element)
        {
            if !in_config.contains_key(element) {
                add(Some(item), None);
                at_live += 1;
                continue;
            }
            if done.contains(element) {
                at_live += 1;
                if next_config.is_none() {
                    continue;
                }
            }
        }
        let Some((element, _)) = next_config else {
            // Only merged items are left.
            at_live += 1;
            continue;
        };
        add(
            in_live.get(element).copied().flatten(),
            in_config.get(element).copied().flatten(),
        );
        done.insert(element);
        at_config += 1;
        if next_live.is_some_and(|(mine, _)| mine == element) {
            at_live += 1;
        }
        if next_shared == Some(element) {
            next_shared = shared.next();
        }
    }
}

/// Returns the item of each element; `None` for ambiguous elements.
fn index<'a>(named: &'a [(Element, &'a Value)]) -> BTreeMap<&'a Element, Option<&'a Value>> {
    let mut found: BTreeMap<&Element, Option<&Value>> = BTreeMap::new();
    for (element, item) in named {
        found
            .entry(element)
            .and_modify(|item| *item = None)
            .or_insert(Some(item));
    }
    found
}
