//! Strategic merge patches: merge patches with lists that are merged by a key.
//!
//! The directives: `$patch` replaces or deletes a map or an element of a list, `$retainKeys` keeps
//! only the named keys of a map, `$deleteFromPrimitiveList/NAME` removes scalars from a list, and
//! `$setElementOrder/NAME` orders a list. Order and errors are those of the real server, which
//! reports most errors as 500.

mod go_text;
mod lists;
mod order;

pub use go_text::value as shown;

use super::PatchError;
use crate::typing::{Field, Shape, TypeRef, TypeTable};
use serde_json::{Map, Value};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const DELETE_SCALARS: &str = "$deleteFromPrimitiveList";
const ELEMENT_ORDER: &str = "$setElementOrder";

/// Applies a patch to an object of a kind.
pub fn apply(
    document: &Value,
    patch: &Value,
    types: &TypeTable,
    root: TypeRef,
) -> Result<Value, PatchError> {
    let patch = match patch {
        Value::Object(patch) => patch.clone(),
        Value::Null => Map::new(),
        other => {
            return Err(PatchError::BadRequest(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                super::json_kind(other)
            )));
        }
    };
    let document = document.as_object().cloned().unwrap_or_default();
    Merger { types }
        .maps(document, patch, root)
        .map(Value::Object)
}

fn internal(text: impl Into<String>) -> PatchError {
    PatchError::Internal(text.into())
}

fn bad_format(of: &str) -> PatchError {
    PatchError::BadRequest(format!("invalid patch format of {of}"))
}

struct Merger<'t> {
    types: &'t TypeTable,
}

impl Merger<'_> {
    fn maps(
        &self,
        mut original: Map<String, Value>,
        mut patch: Map<String, Value>,
        of: TypeRef,
    ) -> Result<Map<String, Value>, PatchError> {
        match patch.get(DIRECTIVE) {
            None => {}
            Some(Value::String(directive)) if directive == "replace" => {
                patch.remove(DIRECTIVE);
                return Ok(patch);
            }
            Some(Value::String(directive)) if directive == "delete" => return Ok(Map::new()),
            Some(other) => return Err(unknown_directive(other, &patch)),
        }
        if let Some(keys) = patch.remove(RETAIN_KEYS) {
            retain_keys(&mut original, &patch, &keys)?;
        }
        let is_order = |key: &&String| key.starts_with(ELEMENT_ORDER);
        let orders: Vec<String> = patch.keys().filter(is_order).cloned().collect();
        for key in orders {
            let order = patch.remove(&key).unwrap_or_default();
            self.ordered_list(&mut original, &mut patch, &key, order, of)?;
        }
        for (key, value) in patch {
            self.member(&mut original, &key, value, of)?;
        }
        Ok(original)
    }

    fn member(
        &self,
        original: &mut Map<String, Value>,
        key: &str,
        value: Value,
        of: TypeRef,
    ) -> Result<(), PatchError> {
        let deletes = key.starts_with(DELETE_SCALARS);
        let key = if deletes {
            directed_key(key, DELETE_SCALARS).ok_or_else(|| bad_format("primitive list"))?
        } else {
            key
        };
        if value.is_null() {
            original.remove(key);
            return Ok(());
        }
        let merged = match (original.remove(key), value) {
            (Some(Value::Object(current)), Value::Object(value)) => {
                let field = self.field(of, key)?;
                if field.strategy.replace {
                    Value::Object(value)
                } else {
                    Value::Object(self.maps(current, value, field.of)?)
                }
            }
            (Some(Value::Array(current)), Value::Array(value)) => {
                let (field, element) = self.list(of, key)?;
                if field.strategy.merge || deletes {
                    let merge_key = field.strategy.merge_key.as_deref();
                    self.lists(current, value, element, merge_key, deletes)?
                        .into()
                } else {
                    Value::Array(value)
                }
            }
            (Some(current), _) if deletes => current,
            (None, _) if deletes => return Ok(()),
            (_, value) => match without_directives(without_nulls(value)) {
                Some(value) => value,
                None => return Ok(()),
            },
        };
        original.insert(key.to_owned(), merged);
        Ok(())
    }

    /// Merges a list with `$setElementOrder` with the patch, if there is one, and sorts it.
    fn ordered_list(
        &self,
        original: &mut Map<String, Value>,
        patch: &mut Map<String, Value>,
        directive: &str,
        order: Value,
        of: TypeRef,
    ) -> Result<(), PatchError> {
        let order = lists::as_list(order)?;
        let key = directed_key(directive, ELEMENT_ORDER)
            .ok_or_else(|| bad_format("setElementOrder list"))?;
        let current = original.get(key).cloned().map(lists::as_list).transpose()?;
        let changes = patch.get(key).cloned().map(lists::as_list).transpose()?;
        let (field, element) = self.list(of, key)?;
        let merge_key = field.strategy.merge_key.as_deref();
        order::check(changes.as_deref().unwrap_or_default(), &order, merge_key)?;
        let mut live = current.clone().unwrap_or_default();
        let merged = match (current, changes) {
            (None, None) => return Ok(()),
            (Some(current), None) => current,
            (None, Some(changes)) => changes.into_iter().filter_map(without_directives).collect(),
            (Some(current), Some(changes)) if field.strategy.merge => {
                self.lists(current, changes, element, merge_key, false)?
            }
            (Some(_), Some(changes)) => changes,
        };
        let empty = Vec::new();
        let changes = patch.get(key).and_then(Value::as_array).unwrap_or(&empty);
        let is_maps = lists::element_kind(&[&live, changes])? == lists::ElementKind::Map;
        if let (true, Some(merge_key)) = (is_maps && field.strategy.merge, merge_key) {
            live = order::reuse_places(live, changes, merge_key);
        }
        let sorted = order::sort(merged, &order, &live, merge_key, is_maps)?;
        original.insert(key.to_owned(), Value::Array(sorted));
        patch.remove(key);
        Ok(())
    }

    /// Returns the field of a struct.
    fn field(&self, of: TypeRef, key: &str) -> Result<&Field, PatchError> {
        let of = self.types.get(self.types.target(of));
        if !matches!(of.shape, Shape::Struct(_) | Shape::Custom(_)) {
            return Err(internal(format!(
                "merging an object in json but data type is not struct, instead is: {}",
                of.shape.go_kind()
            )));
        }
        of.field(key).ok_or_else(|| {
            internal(format!(
                "unable to find api field in struct {} for the json field {}",
                of.name(),
                Value::from(key)
            ))
        })
    }

    /// Returns the field of a struct that is a list, and the type of its elements.
    fn list(&self, of: TypeRef, key: &str) -> Result<(&Field, TypeRef), PatchError> {
        let field = self.field(of, key)?;
        let Shape::Slice(element) = self.types.get(field.of).shape else {
            let text = format!(
                "expected slice or array type, but got: {}",
                self.types.get(of).shape.go_kind()
            );
            return Err(internal(text));
        };
        if matches!(
            self.types.get(element).shape,
            Shape::Slice(_) | Shape::Bytes
        ) {
            return Err(internal("unexpected slice of slice"));
        }
        Ok((field, element))
    }
}

fn unknown_directive(directive: &Value, map: &Map<String, Value>) -> PatchError {
    internal(format!(
        "unknown patch type: {} in map: {}",
        go_text::value(directive),
        go_text::map(map)
    ))
}

/// Returns the field name of a directive such as `$setElementOrder/NAME`.
fn directed_key<'a>(key: &'a str, directive: &str) -> Option<&'a str> {
    key.strip_prefix(directive)?.strip_prefix('/')
}

/// Drops the keys that are not listed. All keys of the patch must be listed.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &Map<String, Value>,
    keys: &Value,
) -> Result<(), PatchError> {
    let keys = keys.as_array().ok_or_else(|| bad_format("retainKeys"))?;
    let keys: std::collections::BTreeSet<&str> = keys.iter().filter_map(Value::as_str).collect();
    let is_directive =
        |key: &str| key.starts_with(DELETE_SCALARS) || key.starts_with(ELEMENT_ORDER);
    let named = |(key, value): (&String, &Value)| {
        value.is_null() || is_directive(key) || keys.contains(key.as_str())
    };
    if !patch.iter().all(named) {
        return Err(bad_format("retainKeys"));
    }
    original.retain(|key, _| keys.contains(key.as_str()));
    Ok(())
}

/// Returns a new value without nulls.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, value)| !value.is_null());
            kept.map(|(key, value)| (key, without_nulls(value)))
                .collect()
        }
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// Returns a new value without directives, or `None` if the whole value is one.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => None,
        Value::Object(map) => {
            let kept = map.into_iter();
            Some(
                kept.filter_map(|(key, value)| Some((key, without_directives(value)?)))
                    .collect(),
            )
        }
        Value::Array(items) => Some(items.into_iter().filter_map(without_directives).collect()),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests;
