//! Checks of converted objects. Servers reject the whole response if one object is wrong; here the
//! error can name the handler.

use serde_json::{Map, Value};

/// A converted object that API servers do not accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unacceptable {
    /// Something else than an object.
    #[error(
        "the converted object is not an object: return the whole object, or change it by the patch"
    )]
    NotAnObject,
    /// Another kind or version.
    #[error("the converted object has {field} {given:?}: must be {expected:?}")]
    Type {
        /// The field.
        field: &'static str,
        /// The value of the field.
        given: String,
        /// The expected value.
        expected: String,
    },
    /// Metadata that conversions must not change.
    #[error("the conversion changes metadata.{field}: only labels and annotations can be changed")]
    Metadata {
        /// The field of the metadata.
        field: String,
    },
}

/// Checks an object that a handler has returned for this object, and completes it: `kind`,
/// `apiVersion` and `metadata` can be left out.
///
/// # Errors
/// If the kind, the version, or metadata other than labels and annotations are not as they must be.
pub fn accept(before: &Value, after: Value, api_version: &str) -> Result<Value, Unacceptable> {
    let Value::Object(mut after) = after else {
        return Err(Unacceptable::NotAnObject);
    };
    let text = |object: &Value, field: &str| {
        let text = object.get(field).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    expect(&mut after, "kind", &[&text(before, "kind")])?;
    // A handler can leave the version as it is.
    let accepted = [api_version, &text(before, "apiVersion")];
    expect(&mut after, "apiVersion", &accepted)?;
    let empty = Value::Object(Map::new());
    let original = before.get("metadata").unwrap_or(&empty);
    match after.get("metadata") {
        None | Some(Value::Null) => {
            after.insert("metadata".to_owned(), original.clone());
        }
        Some(metadata) => check_metadata(original, metadata)?,
    }
    Ok(Value::Object(after))
}

/// Sets a field to the first accepted value, if it has one of them or none.
fn expect(
    object: &mut Map<String, Value>,
    field: &'static str,
    accepted: &[&str],
) -> Result<(), Unacceptable> {
    let expected = accepted.first().copied().unwrap_or_default();
    let given = match object.get(field) {
        None | Some(Value::Null) => None,
        Some(Value::String(given)) if accepted.contains(&given.as_str()) => None,
        Some(given) => Some(
            given
                .as_str()
                .map_or_else(|| given.to_string(), str::to_owned),
        ),
    };
    if let Some(given) = given {
        let expected = expected.to_owned();
        return Err(Unacceptable::Type {
            field,
            given,
            expected,
        });
    }
    object.insert(field.to_owned(), Value::String(expected.to_owned()));
    Ok(())
}

fn check_metadata(before: &Value, after: &Value) -> Result<(), Unacceptable> {
    let changed = |field: &str| Unacceptable::Metadata {
        field: field.to_owned(),
    };
    let (Some(before), Some(after)) = (before.as_object(), after.as_object()) else {
        return Err(changed("name"));
    };
    let is_free = |field: &&String| !matches!(field.as_str(), "labels" | "annotations");
    let fields = before.keys().chain(after.keys()).filter(is_free);
    for field in fields {
        if before.get(field) != after.get(field) {
            return Err(changed(field));
        }
    }
    for field in ["labels", "annotations"] {
        let is_wrong = |value: &Value| !value.is_object() && !value.is_null();
        if after.get(field).is_some_and(is_wrong) {
            return Err(changed(field));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn before() -> Value {
        json!({"apiVersion": "g/v1", "kind": "Thing", "spec": {"a": 1},
            "metadata": {"name": "x", "uid": "u", "labels": {"l": "1"}}})
    }

    #[test]
    fn missing_parts_are_completed() {
        let after = accept(&before(), json!({"spec": {"b": 1}}), "g/v2").unwrap();
        assert_eq!(after["apiVersion"], "g/v2");
        assert_eq!(after["kind"], "Thing");
        assert_eq!(after["metadata"], before()["metadata"]);
        assert_eq!(after["spec"], json!({"b": 1}));
        assert_eq!(
            accept(&before(), before(), "g/v2").unwrap()["apiVersion"],
            "g/v2"
        );
    }

    #[test]
    fn labels_and_annotations_can_be_changed() {
        let mut changed = before();
        changed["metadata"]["labels"] = json!({});
        changed["metadata"]["annotations"] = json!({"old": "value"});
        let after = accept(&before(), changed, "g/v2").unwrap();
        assert_eq!(after["metadata"]["annotations"], json!({"old": "value"}));
    }

    #[test]
    fn other_changes_are_errors() {
        let changed = |pointer: &str, value: Value| {
            let mut changed = before();
            match pointer.split_once('.') {
                Some((outer, inner)) => changed[outer][inner] = value,
                None => changed[pointer] = value,
            }
            accept(&before(), changed, "g/v2").unwrap_err().to_string()
        };
        for field in ["name", "uid", "finalizers"] {
            let error = changed(&format!("metadata.{field}"), json!("other"));
            assert!(
                error.starts_with(&format!("the conversion changes metadata.{field}")),
                "{error}"
            );
        }
        assert!(changed("metadata.labels", json!("x")).contains("metadata.labels"));
        let error = changed("kind", json!("Other"));
        assert_eq!(
            error,
            "the converted object has kind \"Other\": must be \"Thing\""
        );
        assert!(changed("apiVersion", json!("g/v3")).contains("must be \"g/v2\""));
        assert_eq!(
            accept(&before(), json!(1), "g/v2"),
            Err(Unacceptable::NotAnObject)
        );
    }
}
