//! The diff-base in the status, as a string.

use std::sync::Arc;

use serde_json::Value;

use super::{DiffBaseStorage, StorageError, decode, remove_fields};
use crate::body::Body;
use crate::encoding::{is_json_text, to_json_text_in_order};
use crate::essence::drop_empty_stanzas;
use crate::field::{FieldPath, resolve_lenient};
use crate::key_order::{InOrder, KeyOrder};
use crate::patch::Patch;

/// A storage of the essence in `status.kopf.last-handled-configuration`, as a string, so that the
/// server neither merges nor prunes it.
///
/// ```
/// use kopf_core::diffbase::StatusDiffBaseStorage;
///
/// let storage = StatusDiffBaseStorage::default().field("status.my-operator.base");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusDiffBaseStorage {
    field: FieldPath,
    ignored_fields: Vec<FieldPath>,
}

impl Default for StatusDiffBaseStorage {
    fn default() -> Self {
        Self::new("kopf")
    }
}

impl StatusDiffBaseStorage {
    /// Creates a storage in `status.<name>.last-handled-configuration`.
    pub fn new(name: &str) -> Self {
        let field = format!("status.{name}.last-handled-configuration").into();
        Self {
            field,
            ignored_fields: Vec::new(),
        }
    }

    /// Sets the field with the essence.
    #[must_use]
    pub fn field(self, field: impl Into<FieldPath>) -> Self {
        Self {
            field: field.into(),
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
}

impl DiffBaseStorage for StatusDiffBaseStorage {
    fn is_usual(&self) -> bool {
        true
    }

    fn strip(&self, _body: &Body, essence: &mut Value) {
        remove_fields(essence, &self.ignored_fields);
        remove_fields(essence, std::slice::from_ref(&self.field));
        drop_empty_stanzas(essence);
    }

    fn fetch(&self, body: &Body) -> Result<Option<Value>, StorageError> {
        match resolve_lenient(body.value(), &self.field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => decode(text, || self.field.to_string()),
            Some(_) => Err(StorageError::Unexpected {
                place: self.field.to_string(),
                expected: "a text with JSON",
            }),
        }
    }

    fn is_stored(&self, body: &Body, essence: &Value) -> bool {
        let text = resolve_lenient(body.value(), &self.field).and_then(Value::as_str);
        let essence = InOrder(essence, body.order().map(Arc::as_ref));
        text.is_some_and(|text| is_json_text(&essence, text))
    }

    fn key_order(&self, body: &Body) -> Option<Arc<KeyOrder>> {
        let text = resolve_lenient(body.value(), &self.field).and_then(Value::as_str);
        text.and_then(KeyOrder::parse)
    }

    fn store(&self, body: &Body, patch: &mut Patch, essence: &Value) -> Result<(), StorageError> {
        let text = to_json_text_in_order(essence, body.order().map(Arc::as_ref));
        patch.set(&self.field, Value::from(text));
        Ok(())
    }
}
