//! Digests of values in essences.

use blake2::digest::consts::U16;
use blake2::{Blake2b, Digest as _};
use serde_json::Value;

use super::{DigestKey, FIELDS, SecretValues};
use crate::body::Body;
use crate::essence::LAST_APPLIED;

/// Prefix of digests that are keyed by the uid alone.
const BY_UID: &str = "digest:";

/// Prefix of digests that are keyed by a key of the operator.
const BY_KEY: &str = "keyed-digest:";

/// Separates these digests from other uses of the same hash function and key.
const DOMAIN: &[u8] = b"kopf/secret-values/1";

/// Replaces the values of a Secret in its essence by digests, as far as the settings require it.
///
/// A digest depends on the key, on the uid of the Secret, and on the name of the value: equal values
/// of different Secrets have different digests. The annotation of `kubectl apply`, which contains the
/// values as well, is in an essence only if a handler is declared for it.
pub fn digest_values(essence: &mut Value, body: &Body, values: &SecretValues) {
    let (prefix, key) = match values {
        SecretValues::Plain => return,
        SecretValues::Digests => (BY_UID, None),
        SecretValues::KeyedDigests(key) => (BY_KEY, Some(key)),
    };
    let digests = Digests {
        prefix,
        key,
        uid: body.uid().unwrap_or_default(),
    };
    for field in FIELDS {
        if let Some(values) = essence.get_mut(field) {
            digests.replace(values, field);
        }
    }
    let annotations = essence.pointer_mut("/metadata/annotations");
    if let Some(applied) = annotations.and_then(|annotations| annotations.get_mut(LAST_APPLIED)) {
        digests.replace(applied, LAST_APPLIED);
    }
}

/// Replaces the values of a Secret in its essence by digests if the stored essence has digests: for
/// comparisons without the settings of the operator.
///
/// Digests with a key of the operator cannot be computed here; their values count as unchanged.
pub fn digest_values_like(stored: &Value, essence: &mut Value, body: &Body) {
    let is_digest = |value: &Value, prefix: &str| {
        let text = value.as_str();
        text.is_some_and(|text| text.starts_with(prefix))
    };
    let stored_in = |field: &str| {
        let stored = stored.get(field).and_then(Value::as_object);
        stored.into_iter().flatten()
    };
    let mut values = FIELDS.iter().flat_map(|field| stored_in(field));
    if values.any(|(_, value)| is_digest(value, BY_UID)) {
        digest_values(essence, body, &SecretValues::Digests);
    }
    for field in FIELDS {
        for (name, digest) in stored_in(field).filter(|(_, value)| is_digest(value, BY_KEY)) {
            let current = essence.get_mut(field).and_then(|map| map.get_mut(name));
            if let Some(current) = current {
                *current = digest.clone();
            }
        }
    }
}

struct Digests<'a> {
    prefix: &'static str,
    key: Option<&'a DigestKey>,
    uid: &'a str,
}

impl Digests<'_> {
    /// Replaces the values of a map, or a value that is not a map.
    fn replace(&self, values: &mut Value, field: &str) {
        match values {
            // A null is an absent value in diffs.
            Value::Null => {}
            Value::Object(map) => {
                for (name, value) in map.iter_mut().filter(|(_, value)| !value.is_null()) {
                    *value = Value::String(self.digest(field, name, value));
                }
            }
            value => *value = Value::String(self.digest(field, "", value)),
        }
    }

    fn digest(&self, field: &str, name: &str, value: &Value) -> String {
        let text = match value {
            Value::String(text) => text.clone(),
            value => value.to_string(),
        };
        // Unlike SHA-2, BLAKE2 is a secure MAC with the key as a prefix of the message.
        let mut hash = Blake2b::<U16>::new();
        let key = self.key.map_or(&[][..], |key| &key.0);
        let parts = [
            DOMAIN,
            key,
            self.uid.as_bytes(),
            field.as_bytes(),
            name.as_bytes(),
            text.as_bytes(),
        ];
        for part in parts {
            // With lengths, parts cannot be shifted into each other.
            let length = u64::try_from(part.len()).unwrap_or(u64::MAX);
            hash.update(length.to_le_bytes());
            hash.update(part);
        }
        let number = u128::from_be_bytes(hash.finalize().into());
        format!("{}{number:032x}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::essence;

    fn secret(uid: &str, password: &str) -> Body {
        Body::new(json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {"name": "s", "uid": uid, "labels": {"a": "b"}},
            "data": {"password": password, "user": "cm9vdA=="},
        }))
    }

    fn essence(body: &Body, values: &SecretValues) -> Value {
        let mut essence = essence::build(body, &[], &[]).unwrap();
        digest_values(&mut essence, body, values);
        essence
    }

    fn keyed(key: &str) -> SecretValues {
        SecretValues::KeyedDigests(DigestKey::new(key))
    }

    #[test]
    fn values_become_digests_and_the_rest_stays() {
        let body = secret("u-1", "aHVudGVyMg==");
        let plain = essence(&body, &SecretValues::Plain);
        assert_eq!(plain["data"]["password"], "aHVudGVyMg==");
        let digested = essence(&body, &SecretValues::Digests);
        assert_eq!(digested["type"], "Opaque");
        assert_eq!(digested["metadata"], json!({"labels": {"a": "b"}}));
        // Stored on objects: it must not change between versions.
        let expected = "digest:63522219291ae65e2e28ec507523ae0b";
        assert_eq!(digested["data"]["password"], expected);
    }

    #[test]
    fn digests_differ_by_value_name_object_and_key() {
        let digest = |uid, password, values: &SecretValues| {
            essence(&secret(uid, password), values)["data"]["password"].clone()
        };
        let usual = SecretValues::Digests;
        let first = digest("u-1", "x", &usual);
        assert_eq!(first, digest("u-1", "x", &usual));
        assert_ne!(first, digest("u-1", "y", &usual));
        assert_ne!(first, digest("u-2", "x", &usual));
        let same = essence(&secret("u-1", "cm9vdA=="), &usual);
        assert_ne!(same["data"]["password"], same["data"]["user"]);
        let with_key = digest("u-1", "x", &keyed("k"));
        assert_ne!(with_key, digest("u-1", "x", &keyed("l")));
        assert!(with_key.as_str().unwrap().starts_with("keyed-digest:"));
    }

    #[test]
    fn string_data_and_applied_configurations_are_digested() {
        let body = Body::new(json!({
            "metadata": {"uid": "u", "annotations": {LAST_APPLIED: "{\"data\":…}", "plain": "1"}},
            "stringData": {"a": "hunter2", "none": null, "list": ["hunter2"]},
        }));
        let mut found = essence::build(&body, &["metadata.annotations".into()], &[]).unwrap();
        digest_values(&mut found, &body, &SecretValues::Digests);
        let text = found.to_string();
        assert!(!text.contains("hunter2") && !text.contains("…"), "{text}");
        assert_eq!(found["stringData"]["none"], Value::Null);
        assert_eq!(found["metadata"]["annotations"]["plain"], "1");
    }

    #[test]
    fn essences_are_compared_in_the_stored_form() {
        let (before, after) = (secret("u-1", "x"), secret("u-1", "y"));
        let compare = |values: &SecretValues, body: &Body| {
            let stored = essence(&before, values);
            let mut current = essence(body, &SecretValues::Plain);
            digest_values_like(&stored, &mut current, body);
            current == stored
        };
        for values in [SecretValues::Plain, SecretValues::Digests] {
            assert!(compare(&values, &before), "{values:?}");
            assert!(!compare(&values, &after), "{values:?}");
        }
        assert!(compare(&keyed("k"), &before));
        assert!(
            compare(&keyed("k"), &after),
            "cannot be compared without the key"
        );
    }

    #[test]
    fn malformed_values_are_digested_as_a_whole() {
        let body = Body::new(json!({"data": "hunter2", "stringData": null}));
        let found = essence(&body, &SecretValues::Digests);
        assert!(found["data"].as_str().unwrap().starts_with(BY_UID));
        assert_eq!(found["stringData"], Value::Null);
        let mut odd = json!([1]);
        digest_values(&mut odd, &body, &SecretValues::Digests);
        assert_eq!(odd, json!([1]));
    }
}
