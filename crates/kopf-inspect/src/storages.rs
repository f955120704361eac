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

use crate::annotations::{BASE, COPIED, is_known, record};
use crate::recognition::{self, Operator};

/// The storages and the finalizer of the inspected operator.
///
/// Progress and diff-base are read from annotations and from the status, where any version of Kopf
/// keeps them. Unless they are given, the prefix and the finalizer are recognised on each object:
/// see [`recognised`](Self::recognised).
#[derive(Clone, Debug)]
pub struct Storages {
    pub(crate) naming: KeyNaming,
    /// Prefixes of progress records, in addition to that of the diff-base.
    pub(crate) others: Vec<KeyNaming>,
    /// Prefixes of other operators on the same object.
    foreign: Vec<KeyNaming>,
    pub(crate) progress: SmartProgressStorage,
    finalizer: Finalizing,
    diffbase: Arc<dyn DiffBaseStorage>,
    ignored: Vec<FieldPath>,
    is_given: bool,
}

/// The finalizer of the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Finalizing {
    /// The name is known.
    Named(String),
    /// It is recognised by its name: the default one, one in the domain of the operator's
    /// annotations, or one that contains `kopf`.
    Recognised,
}

impl Default for Storages {
    fn default() -> Self {
        Self::of(KeyNaming::default(), Finalizing::Recognised, &[])
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
        let finalizer = match finalizer {
            Some(name) => Finalizing::Named(name.to_owned()),
            None => Finalizing::Recognised,
        };
        Ok(Self {
            is_given: prefix.is_some(),
            ..Self::of(naming, finalizer, ignored)
        })
    }

    /// Uses the storages and the finalizer of these settings. Storages that are neither in
    /// annotations nor in the status are not read.
    pub fn of_settings(settings: &Settings) -> Self {
        let persistence = &settings.persistence;
        let finalizer = Finalizing::Named(persistence.finalizer.clone());
        let storage = &persistence.diffbase_storage;
        let naming = storage.naming().filter(|_| storage.is_usual()).cloned();
        match naming {
            Some(naming) => Self {
                is_given: true,
                diffbase: Arc::clone(storage),
                ..Self::of(naming, finalizer, &[])
            },
            None => Self::of(KeyNaming::default(), finalizer, &[]),
        }
    }

    fn of(naming: KeyNaming, finalizer: Finalizing, ignored: &[FieldPath]) -> Self {
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
            others: Vec::new(),
            foreign: Vec::new(),
            progress,
            finalizer,
            diffbase: Arc::new(MultiDiffBaseStorage::new(storages)),
            ignored: ignored.to_vec(),
            is_given: false,
        }
    }

    /// Returns the storages of each operator that has left its state on an object: at least one.
    ///
    /// Operators are recognised by the prefixes of their annotations: marked ones
    /// (`PREFIX/kopf-managed`), and those with a diff-base or a progress record.
    pub(crate) fn recognised(&self, body: &Body) -> Vec<Self> {
        let found = recognition::operators(body);
        let prefixes: Vec<&str> = found.iter().map(|operator| operator.prefix).collect();
        let mut storages = if self.is_given || found.is_empty() {
            vec![self.in_status_of(body)]
        } else {
            let found = found.iter();
            found
                .filter_map(|one| self.of_operator(one, body))
                .collect()
        };
        for one in &mut storages {
            let foreign = prefixes
                .iter()
                .filter(|prefix| **prefix != one.naming.prefix());
            let foreign = foreign.filter_map(|prefix| KeyNaming::new(*prefix, true).ok());
            one.foreign = foreign.collect();
        }
        storages
    }

    fn of_operator(&self, operator: &Operator<'_>, body: &Body) -> Option<Self> {
        let naming = KeyNaming::new(operator.prefix, true).ok()?;
        let others = operator.others.iter();
        let others = others.filter_map(|prefix| KeyNaming::new(*prefix, true).ok());
        let storages = Self {
            others: others.collect(),
            ..Self::of(naming, self.finalizer.clone(), &self.ignored)
        };
        Some(match operator.key {
            Some(key) => storages.with_key(key),
            None => storages.in_status_of(body),
        })
    }

    /// Returns `true` if the finalizer belongs to the operator.
    pub(crate) fn owns_finalizer(&self, name: &str) -> bool {
        match &self.finalizer {
            Finalizing::Named(own) => name == own,
            Finalizing::Recognised => {
                let is_inside = |naming: &KeyNaming| naming.owns(name);
                let is_own = is_inside(&self.naming) || self.others.iter().any(is_inside);
                let is_foreign = self.foreign.iter().any(is_inside);
                is_own || !is_foreign && name.to_ascii_lowercase().contains("kopf")
            }
        }
    }

    /// Reads the diff-base from another annotation.
    fn with_key(self, key: &str) -> Self {
        let storage = AnnotationsDiffBaseStorage::new(self.naming.prefix()).unwrap_or_default();
        let storage = storage
            .key(key)
            .ignored_fields(self.ignored.iter().cloned());
        Self {
            diffbase: Arc::new(storage),
            ..self
        }
    }

    /// Reads the diff-base from another field of the status, if the object has it there.
    fn in_status_of(&self, body: &Body) -> Self {
        let field = (!self.is_given).then(|| recognition::base_in_status(body));
        let Some(field) = field.flatten() else {
            return self.clone();
        };
        let storage = StatusDiffBaseStorage::default().field(field);
        let storage = storage.ignored_fields(self.ignored.iter().cloned());
        Self {
            diffbase: Arc::new(MultiDiffBaseStorage::new([
                Arc::clone(&self.diffbase),
                Arc::new(storage),
            ])),
            ..self.clone()
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
        AttemptedEssences::strip(&self.naming.clone().into(), body, &mut essence);
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

/// An annotation of the operator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnAnnotation<'a> {
    pub(crate) key: &'a str,
    /// The key without prefix and suffix.
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
}

/// Returns the annotations of the operator.
pub(crate) fn own_annotations<'a>(
    storages: &'a Storages,
    body: &'a Body,
) -> impl Iterator<Item = OwnAnnotation<'a>> {
    let namings = std::iter::once(&storages.naming).chain(&storages.others);
    namings.flat_map(move |naming| annotations_of(naming, body))
}

fn annotations_of<'a>(
    naming: &'a KeyNaming,
    body: &'a Body,
) -> impl Iterator<Item = OwnAnnotation<'a>> {
    let prefix = naming.prefix();
    let is_copied = naming
        .keys(BASE, body)
        .iter()
        .any(|key| key.ends_with(COPIED));
    body.annotations().iter().filter_map(move |(key, value)| {
        let name = if prefix.is_empty() {
            key.as_str()
        } else {
            key.strip_prefix(prefix)?.strip_prefix('/')?
        };
        // Replica sets also have copies of their deployment's annotations, without the suffix.
        let name = if is_copied {
            name.strip_suffix(COPIED)?
        } else {
            name
        };
        let text = value.as_str()?;
        // Without a prefix, annotations are recognised by their names and values.
        let is_own = !prefix.is_empty() || is_known(name) || record(text).is_some();
        is_own.then_some(OwnAnnotation { key, name, text })
    })
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
    fn finalizers_belong_to_the_operator_with_their_prefix() {
        let own = "my-op.example.com/kopf-managed";
        let owned = |storages: &Storages, annotations: Value, name: &str| {
            let body = Body::new(json!({"metadata": {"annotations": annotations}}));
            let operators = storages.recognised(&body);
            let owners = operators.iter().filter(|one| one.owns_finalizer(name));
            owners
                .map(|one| one.naming.prefix().to_owned())
                .collect::<Vec<_>>()
        };
        let default = Storages::default();
        let usual = "kopf.zalando.org/KopfFinalizerMarker";
        assert_eq!(owned(&default, json!({}), usual), ["kopf.zalando.org"]);
        assert_eq!(
            owned(&default, json!({own: "yes"}), usual),
            ["my-op.example.com"]
        );
        assert_eq!(
            owned(&default, json!({own: "yes"}), "x.example.com/y"),
            [""; 0]
        );
        let both = json!({own: "yes", "kopf.zalando.org/last-handled-configuration": "{}\n",
                          "my-op.example.com/last-handled-configuration": "{}\n"});
        assert_eq!(owned(&default, both.clone(), usual), ["kopf.zalando.org"]);
        let finalizer = "my-op.example.com/finalizer";
        assert_eq!(
            owned(&default, both.clone(), finalizer),
            ["my-op.example.com"]
        );
        let given = Storages::new(Some("my-op.example.com"), None, &[]).unwrap();
        assert_eq!(owned(&given, both.clone(), usual), [""; 0]);
        let named = Storages::new(None, Some("x/y"), &[]).unwrap();
        assert_eq!(
            owned(&named, json!({own: "yes"}), "x/y"),
            ["my-op.example.com"]
        );
        assert_eq!(owned(&named, json!({own: "yes"}), usual), [""; 0]);
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
