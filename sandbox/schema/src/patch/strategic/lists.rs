//! Merging of lists: scalars by their values, maps by their merge key.

use super::{DIRECTIVE, Merger, PatchError, go_text, internal, order, unknown_directive};
use crate::typing::TypeRef;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// The type of a list's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementKind {
    Scalar,
    Map,
}

impl Merger<'_> {
    pub(super) fn lists(
        &self,
        original: Vec<Value>,
        patch: Vec<Value>,
        element: TypeRef,
        merge_key: Option<&str>,
        deletes: bool,
    ) -> Result<Vec<Value>, PatchError> {
        if original.is_empty() && patch.is_empty() {
            return Ok(original);
        }
        if element_kind(&[&original, &patch])? == ElementKind::Scalar {
            if deletes {
                let gone: HashSet<&Value> = patch.iter().collect();
                return Ok(original
                    .into_iter()
                    .filter(|item| !gone.contains(item))
                    .collect());
            }
            let mut seen = HashSet::new();
            let both = original.iter().chain(&patch);
            let merged = both.filter(|item| seen.insert(*item)).cloned().collect();
            return order::sort(merged, &patch, &original, merge_key, false);
        }
        let Some(merge_key) = merge_key else {
            return Err(internal(format!(
                "cannot merge lists without merge key for {}",
                self.types.get(element).shape.go_kind()
            )));
        };
        let (original, patch) = special_elements(original, patch, merge_key)?;
        let merged = self.elements(original.clone(), &patch, merge_key, element)?;
        order::sort(merged, &patch, &original, Some(merge_key), true)
    }

    /// Merges maps with the same value of the merge key; other maps are added.
    fn elements(
        &self,
        mut merged: Vec<Value>,
        patch: &[Value],
        merge_key: &str,
        element: TypeRef,
    ) -> Result<Vec<Value>, PatchError> {
        let mut places: HashMap<Value, usize> = HashMap::new();
        for (place, item) in merged.iter().enumerate() {
            if let Some(key) = item.get(merge_key) {
                places.entry(key.clone()).or_insert(place);
            }
        }
        for item in patch {
            let Value::Object(changes) = item else {
                continue;
            };
            let key = key_of(changes, merge_key)?;
            let current = places.get(key).and_then(|place| merged.get_mut(*place));
            if let Some(Value::Object(current)) = current {
                *current = self.maps(std::mem::take(current), changes.clone(), element)?;
            } else {
                places.insert(key.clone(), merged.len());
                merged.push(item.clone());
            }
        }
        Ok(merged)
    }
}

/// Applies the elements that are directives. Returns the remaining original and the patch without
/// them.
fn special_elements(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    merge_key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut replace = false;
    let mut gone = HashSet::new();
    for item in patch {
        let Value::Object(map) = &item else { continue };
        match map.get(DIRECTIVE) {
            None => rest.push(item),
            Some(Value::String(directive)) if directive == "delete" => {
                gone.insert(key_of(map, merge_key)?.clone());
            }
            Some(Value::String(directive)) if directive == "replace" => replace = true,
            Some(Value::String(directive)) if directive == "merge" => {
                return Err(internal(
                    "merging lists cannot yet be specified in the patch",
                ));
            }
            Some(other) => return Err(unknown_directive(other, map)),
        }
    }
    if replace {
        return Ok((rest, Vec::new()));
    }
    original.retain(|item| item.get(merge_key).is_none_or(|key| !gone.contains(key)));
    Ok((original, rest))
}

pub(super) fn key_of<'a>(
    map: &'a Map<String, Value>,
    merge_key: &str,
) -> Result<&'a Value, PatchError> {
    map.get(merge_key).ok_or_else(|| {
        internal(format!(
            "map: {} does not contain declared merge key: {merge_key}",
            go_text::map(map)
        ))
    })
}

pub(super) fn as_list(value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(unexpected("[]interface {}", &other)),
    }
}

pub(super) fn unexpected(expected: &str, actual: &Value) -> PatchError {
    internal(format!(
        "expected a {expected}, but received a {}",
        go_text::go_type(actual)
    ))
}

/// Returns the type of the elements, which must be the same for all.
pub(super) fn element_kind(lists: &[&Vec<Value>]) -> Result<ElementKind, PatchError> {
    let mut items = lists.iter().flat_map(|items| items.iter());
    let Some(first) = items.next() else {
        return Err(internal("no elements in any of the given slices"));
    };
    if first.is_array() {
        return Err(PatchError::Unprocessable(
            "lists of lists are not supported".to_owned(),
        ));
    }
    let of = go_text::go_type(first);
    if first.is_null() || items.any(|item| go_text::go_type(item) != of) {
        let all: Vec<String> = lists.iter().map(|items| go_text::list(items)).collect();
        return Err(internal(format!(
            "list element types are not identical: [{}]",
            all.join(" ")
        )));
    }
    Ok(if first.is_object() {
        ElementKind::Map
    } else {
        ElementKind::Scalar
    })
}
