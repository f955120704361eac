//! Traversal of nested lists of objects, and access to their parts.

use serde_json::{Map, Value};

use super::Error;

/// Changes a copy, and keeps it only on success.
pub(super) fn all_or_none(
    objs: &mut Value,
    change: impl FnOnce(&mut Value) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut copy = objs.clone();
    change(&mut copy)?;
    *objs = copy;
    Ok(())
}

/// Changes each object of nested lists, either all of them or none.
pub(super) fn each(
    objs: &mut Value,
    change: impl Fn(&mut Map<String, Value>) -> Result<(), Error>,
) -> Result<(), Error> {
    all_or_none(objs, |objs| walk(objs, &change))
}

fn walk(
    objs: &mut Value,
    change: &impl Fn(&mut Map<String, Value>) -> Result<(), Error>,
) -> Result<(), Error> {
    match objs {
        Value::Null => Ok(()),
        Value::Object(object) => change(object),
        Value::Array(list) => list.iter_mut().try_for_each(|objs| walk(objs, change)),
        other => Err(not_an_object(other)),
    }
}

pub(super) fn not_an_object(value: &Value) -> Error {
    let text = value.to_string();
    let mut value: String = text.chars().take(100).collect();
    if value.len() < text.len() {
        value.push_str("...");
    }
    Error::NotAnObject { value }
}

/// Returns the object's metadata, created if absent.
pub(super) fn metadata_mut(
    object: &mut Map<String, Value>,
) -> Result<&mut Map<String, Value>, Error> {
    object_mut(object, "metadata", "metadata")
}

/// Returns an object inside of an object, created if absent.
pub(super) fn object_mut<'a>(
    parent: &'a mut Map<String, Value>,
    key: &str,
    field: &str,
) -> Result<&'a mut Map<String, Value>, Error> {
    let value = parent.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().ok_or_else(|| wrong_type(field))
}

/// Returns a list inside of an object, created if absent.
pub(super) fn list_mut<'a>(
    parent: &'a mut Map<String, Value>,
    key: &str,
    field: &str,
) -> Result<&'a mut Vec<Value>, Error> {
    let value = parent.entry(key).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut().ok_or_else(|| wrong_type(field))
}

fn wrong_type(field: &str) -> Error {
    Error::WrongType {
        field: field.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nested_lists_are_traversed_and_nulls_skipped() {
        let mut objs = json!([{}, [[{}], null]]);
        each(&mut objs, |object| {
            object.insert("seen".into(), json!(true));
            Ok(())
        })
        .unwrap();
        assert_eq!(objs, json!([{"seen": true}, [[{"seen": true}], null]]));
    }

    #[test]
    fn invalid_values_are_rejected_before_any_change() {
        let mut objs = json!([{}, "text"]);
        let error = each(&mut objs, |object| {
            object.insert("seen".into(), json!(true));
            Ok(())
        });
        assert_eq!(
            error.unwrap_err().to_string(),
            "not a Kubernetes object: \"text\""
        );
        assert_eq!(objs, json!([{}, "text"]));
    }
}
