//! JSON patches of mutating handlers.

use serde_json::{Map, Value};

use super::operations::operations;
use crate::panicking::caught;
use crate::patch::{Error, Patch, transform};

/// Returns the operations that apply the patch to the body; empty if nothing changes.
///
/// The merge dictionary comes first: null removes a field and the parents that become empty; objects
/// are merged, and empty ones change nothing; other values replace existing ones. Then the functions
/// are called in order.
///
/// ```
/// use kopf_core::admission::json_patch;
/// use kopf_core::patch::Patch;
/// use serde_json::json;
///
/// let mut patch = Patch::default();
/// patch.set(&"spec.size".into(), json!(5));
/// let operations = json_patch(&patch, &json!({"spec": {"size": 3}}))?;
/// assert_eq!(operations, [json!({"op": "replace", "path": "/spec/size", "value": 5})]);
/// assert!(json_patch(&patch, &json!({"spec": {"size": 5}}))?.is_empty());
/// # Ok::<_, kopf_core::patch::Error>(())
/// ```
pub fn json_patch(patch: &Patch, body: &Value) -> Result<Vec<Value>, Error> {
    if patch.is_empty() {
        return Ok(Vec::new());
    }
    let mut changed = merged(patch, body);
    for function in &patch.fns {
        let called = caught(|| function.call(&mut changed));
        called
            .unwrap_or_else(|panicked| Err(panicked.into()))
            .map_err(|source| Error::Function {
                label: function.label(),
                source,
            })?;
    }
    compared(body, &changed)
}

/// Computes the operations as [`json_patch`] does, and awaits the functions that must be awaited.
/// Panics of functions are not caught.
///
/// # Errors
/// Of the first function that fails, and if the functions leave a value that is not an object.
pub async fn json_patch_awaited(patch: &Patch, body: &Value) -> Result<Vec<Value>, Error> {
    if patch.is_empty() {
        return Ok(Vec::new());
    }
    let changed = transform(&patch.fns, &merged(patch, body)).await?;
    compared(body, &changed)
}

fn merged(patch: &Patch, body: &Value) -> Value {
    let mut changed = body.clone();
    if let Value::Object(fields) = &mut changed {
        merge(fields, &patch.merge);
    }
    changed
}

fn compared(body: &Value, changed: &Value) -> Result<Vec<Value>, Error> {
    if !changed.is_object() {
        return Err(Error::NotAnObject);
    }
    Ok(operations(body, changed))
}

fn merge(fields: &mut Map<String, Value>, wishes: &Map<String, Value>) {
    for (key, wish) in wishes {
        match wish {
            Value::Null => drop(fields.remove(key)),
            Value::Object(wishes) => {
                if let Some(Value::Object(inner)) = fields.get_mut(key) {
                    let was_empty = inner.is_empty();
                    merge(inner, wishes);
                    if inner.is_empty() && !was_empty {
                        fields.remove(key);
                    }
                } else {
                    let mut inner = Map::new();
                    merge(&mut inner, wishes);
                    if !inner.is_empty() {
                        fields.insert(key.clone(), Value::Object(inner));
                    }
                }
            }
            wish => drop(fields.insert(key.clone(), wish.clone())),
        }
    }
}
