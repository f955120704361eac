//! YAML documents.

use serde_json::Value;

/// Error for a document that cannot be written or read as YAML.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {subject} as YAML: {reason}")]
pub struct Error {
    action: &'static str,
    subject: String,
    reason: String,
}

/// Returns the objects as YAML documents. Nulls are removed, as the API server would store them as
/// values.
///
/// ```
/// use kopf_shipping::documents;
/// use serde_json::json;
///
/// let objects = [json!({"kind": "A", "unset": null}), json!({"kind": "B"})];
/// assert_eq!(documents(&objects)?, "kind: A\n---\nkind: B\n");
/// # Ok::<(), kopf_shipping::YamlError>(())
/// ```
pub fn documents(objects: &[Value]) -> Result<String, Error> {
    let mut texts = Vec::new();
    for object in objects {
        let text = serde_saphyr::to_string(&without_nulls(object)).map_err(|error| Error {
            action: "write",
            subject: object["metadata"]["name"].to_string(),
            reason: error.to_string(),
        })?;
        let text = text.trim_start_matches("---\n").trim_end();
        texts.push(format!("{text}\n"));
    }
    Ok(texts.join("---\n"))
}

/// Returns the CRDs in a file of YAML documents. Other objects are ignored.
pub fn definitions(name: &str, text: &str) -> Result<Vec<Value>, Error> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| Error {
        action: "read",
        subject: name.to_owned(),
        reason: error.to_string(),
    })?;
    let is_definition = |object: &Value| object["kind"] == "CustomResourceDefinition";
    Ok(objects.into_iter().filter(is_definition).collect())
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            let fields = fields.map(|(key, value)| (key.clone(), without_nulls(value)));
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

/// Quotes a string. JSON strings are valid YAML strings.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn strings_that_look_like_other_values_are_quoted() {
        let object = json!({"a": "yes", "b": "1.0", "c": "null", "d": "", "e": ["x: y", "# z"],
                            "f": "two\nlines", "g": {"on": true}, "h": {}, "i": []});
        let text = documents(std::slice::from_ref(&object)).unwrap();
        let read: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        assert_eq!(read, [object], "{text}");
    }

    #[test]
    fn crds_are_read_from_files() {
        let text = "kind: Pod\n---\nkind: CustomResourceDefinition\nmetadata: {name: x}\n";
        let found = definitions("x.yaml", text).unwrap();
        assert_eq!(found.len(), 1);
        let error = definitions("x.yaml", "a: [").unwrap_err().to_string();
        assert!(error.starts_with("cannot read x.yaml as YAML: "), "{error}");
    }
}
