//! The storages of operator state on objects.

use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::diffbase::{
    AnnotationsDiffBaseStorage, DiffBaseStorage, MultiDiffBaseStorage, StatusDiffBaseStorage,
};
use kopf_core::field::FieldPath;
use kopf_core::keys::{DEFAULT_PREFIX, Error, KeyNaming};
use kopf_core::object::AttemptedEssences;
use kopf_core::object::retriggering::Request;
use kopf_core::progress::{ProgressStorage as _, SmartProgressStorage};
use kopf_core::secrets::digest_values_like;
use kopf_core::settings::Settings;
use kopf_core::storage::StorageError;
use serde_json::{Map, Value};

/// The storages and the finalizer of the inspected operator.
///
/// Progress and diff-base are read from annotations and from `status.kopf`, the defaults of all
/// versions.
#[derive(Clone, Debug)]
pub struct Storages {
    pub(crate) naming: KeyNaming,
    pub(crate) finalizer: String,
    pub(crate) progress: SmartProgressStorage,
    diffbase: MultiDiffBaseStorage,
}

impl Default for Storages {
    fn default() -> Self {
        Self::of(
            KeyNaming::default(),
            Settings::default().persistence.finalizer,
            &[],
        )
    }
}

impl Storages {
    /// Uses a prefix of annotations and the name of the finalizer. Changes of the ignored fields
    /// are not reported.
    ///
    /// # Errors
    /// If the API server would reject annotations with the prefix.
    pub fn new(
        prefix: Option<&str>,
        finalizer: Option<&str>,
        ignored: &[FieldPath],
    ) -> Result<Self, Error> {
        let naming = KeyNaming::new(prefix.unwrap_or(DEFAULT_PREFIX), true)?;
        let default = || Settings::default().persistence.finalizer;
        let finalizer = finalizer.map_or_else(default, str::to_owned);
        Ok(Self::of(naming, finalizer, ignored))
    }

    fn of(naming: KeyNaming, finalizer: String, ignored: &[FieldPath]) -> Self {
        // `KeyNaming` has checked the prefix, so the fallbacks are never used.
        let progress = SmartProgressStorage::new(naming.prefix()).unwrap_or_default();
        let annotations = AnnotationsDiffBaseStorage::new(naming.prefix()).unwrap_or_default();
        let status = StatusDiffBaseStorage::default();
        let storages: [Arc<dyn DiffBaseStorage>; 2] = [
            Arc::new(annotations.ignored_fields(ignored.iter().cloned())),
            Arc::new(status),
        ];
        Self {
            naming,
            finalizer,
            progress,
            diffbase: MultiDiffBaseStorage::new(storages),
        }
    }

    /// Reads the diff-base: the essence at the last handling.
    pub(crate) fn base(&self, body: &Body) -> Result<Option<Value>, StorageError> {
        let Some(mut base) = self.diffbase.fetch(body)? else {
            return Ok(None);
        };
        self.progress.clear(&mut base)?;
        Ok(Some(base))
    }

    /// Builds the current essence. It includes those fields of the status and the metadata that are
    /// in the diff-base, because handlers have declared them.
    pub(crate) fn essence(&self, body: &Body, base: Option<&Value>) -> Result<Value, StorageError> {
        let extra = base.map(extra_fields).unwrap_or_default();
        let mut essence = self.diffbase.build(body, &extra)?;
        self.progress.clear(&mut essence)?;
        AttemptedEssences::strip(&self.naming, body, &mut essence);
        Request::strip(&self.naming, body, &mut essence);
        if let Some(base) = base
            && is_secret(body)
        {
            digest_values_like(base, &mut essence, body);
        }
        Ok(essence)
    }
}

/// Returns `true` for a Secret.
pub(crate) fn is_secret(body: &Body) -> bool {
    body.api_version() == Some("v1") && body.kind() == Some("Secret")
}

/// Returns the fields of an essence that handlers have declared.
fn extra_fields(base: &Value) -> Vec<FieldPath> {
    let mut fields = Vec::new();
    if let Some(status) = base.get("status").and_then(Value::as_object) {
        leaves(status, &FieldPath::from("status"), &mut fields);
    }
    if let Some(metadata) = base.get("metadata").and_then(Value::as_object) {
        for (key, value) in metadata {
            if !matches!(key.as_str(), "labels" | "annotations") {
                leaf(
                    value,
                    FieldPath::from("metadata").join(key.as_str()),
                    &mut fields,
                );
            }
        }
    }
    fields
}

fn leaves(map: &Map<String, Value>, path: &FieldPath, fields: &mut Vec<FieldPath>) {
    for (key, value) in map {
        leaf(value, path.join(key.as_str()), fields);
    }
}

fn leaf(value: &Value, path: FieldPath, fields: &mut Vec<FieldPath>) {
    match value {
        Value::Object(map) if !map.is_empty() => leaves(map, &path, fields),
        _ => fields.push(path),
    }
}

#[cfg(test)]
mod tests {
    use kopf_core::secrets::{SecretValues, digest_values};
    use serde_json::json;

    use super::*;

    #[test]
    fn declared_fields_of_the_status_are_compared() {
        let storages = Storages::default();
        let base = json!({"spec": {"a": 1}, "status": {"x": {"y": 1}}});
        let text = base.to_string();
        let body = |status: Value| {
            let annotations = json!({"kopf.zalando.org/last-handled-configuration": text});
            Body::new(
                json!({"metadata": {"annotations": annotations}, "spec": {"a": 1}, "status": status}),
            )
        };
        let same = body(json!({"x": {"y": 1, "other": 2}, "more": 3}));
        let found = storages.base(&same).unwrap().unwrap();
        assert_eq!(found, base);
        assert_eq!(storages.essence(&same, Some(&found)).unwrap(), base);
        let other = body(json!({"x": {"y": 2}}));
        assert_ne!(storages.essence(&other, Some(&found)).unwrap(), base);
    }

    #[test]
    fn secrets_are_compared_by_digests() {
        let storages = Storages::default();
        let secret = |password: &str| {
            Body::new(json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "s", "uid": "u"}, "data": {"password": password},
            }))
        };
        let mut base = storages.essence(&secret("x"), None).unwrap();
        digest_values(&mut base, &secret("x"), &SecretValues::Digests);
        assert_eq!(storages.essence(&secret("x"), Some(&base)).unwrap(), base);
        assert_ne!(storages.essence(&secret("y"), Some(&base)).unwrap(), base);
    }

    #[test]
    fn requests_and_ignored_fields_are_not_in_the_essence() {
        let storages = Storages::new(Some("my-op.example.com"), None, &["spec.b".into()]).unwrap();
        let annotations = json!({"my-op.example.com/retrigger-request": "{}"});
        let body =
            Body::new(json!({"metadata": {"annotations": annotations}, "spec": {"a": 1, "b": 2}}));
        assert_eq!(
            storages.essence(&body, None).unwrap(),
            json!({"spec": {"a": 1}})
        );
        assert!(Storages::new(Some("a b"), None, &[]).is_err());
    }
}
