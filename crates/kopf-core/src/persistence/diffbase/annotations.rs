//! The diff-base in an annotation, the default.

use std::sync::Arc;

use serde_json::Value;

use super::{DiffBaseStorage, StorageError, decode, remove_fields};
use crate::body::Body;
use crate::encoding::{is_json_text, to_json_text_in_order};
use crate::essence::drop_annotations;
use crate::field::FieldPath;
use crate::key_order::{InOrder, KeyOrder};
use crate::keys::{self, KeyNaming};
use crate::patch::Patch;

/// A storage of the essence in `metadata.annotations`, which all objects have.
///
/// ```
/// use kopf_core::diffbase::AnnotationsDiffBaseStorage;
///
/// let storage = AnnotationsDiffBaseStorage::new("my-operator.example.com")?
///     .key("last-handled")
///     .ignored_fields(["spec.replicas"]);
/// # Ok::<_, kopf_core::keys::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotationsDiffBaseStorage {
    naming: KeyNaming,
    key: String,
    ignored_fields: Vec<FieldPath>,
}

impl Default for AnnotationsDiffBaseStorage {
    fn default() -> Self {
        Self::named(KeyNaming::default())
    }
}

impl AnnotationsDiffBaseStorage {
    /// Creates a storage with this prefix, usually a domain name of the operator.
    pub fn new(prefix: impl Into<String>) -> Result<Self, keys::Error> {
        KeyNaming::new(prefix, true).map(Self::named)
    }

    /// Sets the name of the annotation; `last-handled-configuration` by default.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            ..self
        }
    }

    /// Sets fields whose changes are ignored.
    #[must_use]
    pub fn ignored_fields<F: Into<FieldPath>>(self, fields: impl IntoIterator<Item = F>) -> Self {
        Self {
            ignored_fields: fields.into_iter().map(Into::into).collect(),
            ..self
        }
    }

    /// Sets whether the older name is written and read as well. On by default.
    #[must_use]
    pub fn v1(self, v1: bool) -> Self {
        Self {
            naming: self.naming.with_v1(v1),
            ..self
        }
    }

    /// Returns the naming of the annotation.
    pub fn naming(&self) -> &KeyNaming {
        &self.naming
    }

    /// Returns the stored text.
    fn text<'b>(&self, body: &'b Body) -> Option<&'b str> {
        let keys = self.naming.keys(&self.key, body);
        keys.iter().find_map(|key| body.annotation(key))
    }

    fn named(naming: KeyNaming) -> Self {
        let key = "last-handled-configuration".to_owned();
        Self {
            naming,
            key,
            ignored_fields: Vec::new(),
        }
    }
}

impl DiffBaseStorage for AnnotationsDiffBaseStorage {
    fn naming(&self) -> Option<&KeyNaming> {
        Some(&self.naming)
    }

    fn is_usual(&self) -> bool {
        true
    }

    fn strip(&self, body: &Body, essence: &mut Value) {
        remove_fields(essence, &self.ignored_fields);
        let mut keys = None;
        drop_annotations(essence, |key| {
            // Most annotations have another prefix: then no names are derived.
            key.starts_with(self.naming.prefix())
                && keys
                    .get_or_insert_with(|| self.naming.keys(&self.key, body))
                    .iter()
                    .any(|own| own == key)
        });
    }

    fn fetch(&self, body: &Body) -> Result<Option<Value>, StorageError> {
        if body.annotations().is_empty() {
            return Ok(None);
        }
        for place in self.naming.keys(&self.key, body) {
            let Some(text) = body.annotation(&place) else {
                continue;
            };
            if let Some(essence) = decode(text, || place)? {
                return Ok(Some(essence));
            }
        }
        Ok(None)
    }

    fn is_stored(&self, body: &Body, essence: &Value) -> bool {
        let essence = InOrder(essence, body.order().map(Arc::as_ref));
        self.text(body)
            .and_then(|text| text.strip_suffix('\n'))
            .is_some_and(|text| is_json_text(&essence, text))
    }

    fn key_order(&self, body: &Body) -> Option<Arc<KeyOrder>> {
        self.text(body).and_then(KeyOrder::parse)
    }

    fn store(&self, body: &Body, patch: &mut Patch, essence: &Value) -> Result<(), StorageError> {
        let order = body.order().map(Arc::as_ref);
        let text = to_json_text_in_order(essence, order) + "\n"; // as by kubectl, for readability in YAML
        for place in self.naming.keys(&self.key, body) {
            patch
                .annotations_mut()
                .insert(place, Value::from(text.as_str()));
        }
        self.naming.mark(body, patch);
        Ok(())
    }
}
