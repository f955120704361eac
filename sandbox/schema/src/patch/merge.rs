//! JSON merge patches (RFC 7396).

use super::PatchError;
use serde_json::{Map, Value};

/// Applies a patch to an object.
pub fn apply(document: &Value, patch: &Value) -> Result<Value, PatchError> {
    let patch = match patch {
        Value::Object(patch) => patch,
        Value::Null => return Err(PatchError::BadRequest("Invalid JSON Patch".to_owned())),
        other => {
            let what = super::json_kind(other);
            return Err(PatchError::BadRequest(format!(
                "error decoding patch: json: cannot unmarshal {what} into Go value of type \
                 map[string]interface {{}}"
            )));
        }
    };
    let mut document = document.as_object().cloned().unwrap_or_default();
    merge(&mut document, patch);
    Ok(Value::Object(document))
}

fn merge(document: &mut Map<String, Value>, patch: &Map<String, Value>) {
    for (key, value) in patch {
        match (document.get_mut(key), value) {
            (_, Value::Null) => {
                document.remove(key);
            }
            (Some(Value::Object(current)), Value::Object(value)) => merge(current, value),
            (Some(current @ Value::Object(_)), value) => *current = value.clone(),
            (Some(current), value) => *current = without_nulls(value),
            (None, value) => {
                document.insert(key.clone(), without_nulls(value));
            }
        }
    }
}

/// Returns a new value without nulls, which delete nothing. The RFC leaves lists unchanged, but the
/// server also processes objects inside of them.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.iter().filter(|(_, value)| !value.is_null());
            kept.map(|(key, value)| (key.clone(), without_nulls(value)))
                .collect()
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// Any JSON, including nulls.
    pub(in crate::patch) fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (-3..4_i64).prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                any_map(inner).prop_map(Value::Object),
            ]
        })
    }

    pub(in crate::patch) fn any_map(
        values: impl Strategy<Value = Value>,
    ) -> impl Strategy<Value = Map<String, Value>> {
        prop::collection::btree_map("[a-d]|\\$patch|~1/", values, 0..4)
            .prop_map(|map| map.into_iter().collect())
    }

    fn any_object() -> impl Strategy<Value = Value> {
        any_map(any_json()).prop_map(Value::Object)
    }

    #[test]
    fn members_are_set_replaced_and_removed() {
        for (document, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": "b"}),
                json!({"b": "c"}),
                json!({"a": "b", "b": "c"}),
            ),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": [{"b": "c"}]}),
                json!({"a": [1]}),
                json!({"a": [1]}),
            ),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (
                json!({"a": {"b": 1}}),
                json!({"a": [1, null]}),
                json!({"a": [1, null]}),
            ),
            (
                json!({"e": null}),
                json!({"a": 1}),
                json!({"e": null, "a": 1}),
            ),
            (
                json!({}),
                json!({"a": {"bb": {"ccc": null}}}),
                json!({"a": {"bb": {}}}),
            ),
            (
                json!({}),
                json!({"a": [{"b": null}, null]}),
                json!({"a": [{}, null]}),
            ),
        ] {
            assert_eq!(
                apply(&document, &patch),
                Ok(expected),
                "{document} + {patch}"
            );
        }
    }

    #[test]
    fn only_objects_are_valid_merge_patches() {
        let refused = |patch| apply(&json!({}), &patch).unwrap_err().to_string();
        assert_eq!(refused(json!(null)), "Invalid JSON Patch");
        assert_eq!(
            refused(json!([])),
            "error decoding patch: json: cannot unmarshal array into Go value of type \
             map[string]interface {}"
        );
    }

    proptest! {
        #[test]
        fn second_application_of_a_merge_patch_changes_nothing(document in any_object(), patch in any_object()) {
            // A list that replaces an object keeps its nulls in the first application only.
            let first = apply(&document, &patch).unwrap();
            let second = apply(&first, &patch).unwrap();
            prop_assert_eq!(apply(&second, &patch), Ok(second.clone()));
        }

        #[test]
        fn empty_patch_changes_nothing(document in any_object()) {
            prop_assert_eq!(apply(&document, &json!({})), Ok(document.clone()));
        }

        #[test]
        fn result_contains_the_values_of_the_patch(document in any_object(), patch in any_object()) {
            let result = apply(&document, &patch).unwrap();
            for (key, value) in patch.as_object().unwrap() {
                prop_assert_eq!(result.get(key).is_none(), value.is_null());
            }
        }
    }
}
