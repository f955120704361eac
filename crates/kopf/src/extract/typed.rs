//! Deserialisation of parts of objects, with the path in errors.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::Rejection;

/// Deserialises a part of an object.
pub(super) fn read<T: DeserializeOwned>(part: &str, value: &Value) -> Result<T, Rejection> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let path = match (part, error.path().to_string().as_str()) {
            ("", path) => path.to_owned(),
            (part, ".") => part.to_owned(),
            (part, path) if path.starts_with('[') => format!("{part}{path}"),
            (part, path) => format!("{part}.{path}"),
        };
        Rejection::Malformed {
            path,
            message: error.into_inner().to_string(),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Volume {
        size: String,
        labels: Option<BTreeMap<String, u32>>,
    }

    fn problem(part: &str, value: &Value) -> String {
        read::<Volume>(part, value).unwrap_err().to_string()
    }

    #[test]
    fn errors_contain_paths() {
        assert_eq!(problem("spec", &json!({})), "spec: missing field `size`");
        assert_eq!(
            problem("spec", &json!({"size": 5})),
            "spec.size: invalid type: integer `5`, expected a string"
        );
        assert_eq!(
            problem("", &json!({"size": "5", "labels": {"x": "y"}})),
            "labels.x: invalid type: string \"y\", expected u32"
        );
        let list: Result<Vec<u32>, _> = read("spec", &json!([1, "x"]));
        assert!(list.unwrap_err().to_string().starts_with("spec[1]: "));
    }

    #[test]
    fn matching_values_are_deserialised() {
        let volume: Volume = read("spec", &json!({"size": "1G"})).unwrap();
        assert_eq!(volume.size, "1G");
    }
}
