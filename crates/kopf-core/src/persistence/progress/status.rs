//! Progress in the status: an object per handler, the older place.

use serde_json::Value;

use super::{ProgressRecord, ProgressStorage, StorageError};
use crate::body::Body;
use crate::essence::drop_empty_stanzas;
use crate::field::{self, FieldPath, resolve_lenient};
use crate::patch::Patch;

/// A storage of records in `status.kopf.progress`, one field per handler.
///
/// The schema of the resource must preserve unknown fields there, otherwise the server drops them.
///
/// ```
/// use kopf_core::progress::StatusProgressStorage;
///
/// let storage = StatusProgressStorage::default().field("status.my-operator.progress");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusProgressStorage {
    field: FieldPath,
    touch_field: FieldPath,
}

impl Default for StatusProgressStorage {
    fn default() -> Self {
        Self::new("kopf")
    }
}

impl StatusProgressStorage {
    /// Creates a storage in `status.<name>.progress`, which touches `status.<name>.dummy`.
    pub fn new(name: &str) -> Self {
        Self {
            field: format!("status.{name}.progress").into(),
            touch_field: format!("status.{name}.dummy").into(),
        }
    }

    /// Sets the field with the records.
    #[must_use]
    pub fn field(self, field: impl Into<FieldPath>) -> Self {
        Self {
            field: field.into(),
            ..self
        }
    }

    /// Sets the field for touching.
    #[must_use]
    pub fn touch_field(self, touch_field: impl Into<FieldPath>) -> Self {
        Self {
            touch_field: touch_field.into(),
            ..self
        }
    }
}

impl ProgressStorage for StatusProgressStorage {
    fn status_field(&self) -> Option<&FieldPath> {
        Some(&self.field)
    }

    fn fetch(&self, key: &str, body: &Body) -> Result<Option<ProgressRecord>, StorageError> {
        let container = resolve_lenient(body.value(), &self.field);
        let value = container
            .and_then(Value::as_object)
            .and_then(|records| records.get(key));
        Ok(value.and_then(ProgressRecord::from_value))
    }

    fn store(
        &self,
        key: &str,
        record: &ProgressRecord,
        _body: &Body,
        patch: &mut Patch,
    ) -> Result<(), StorageError> {
        // With nulls: in a merge patch they delete previous values.
        patch.set(&self.field.join(key), record.to_value());
        Ok(())
    }

    fn purge(&self, key: &str, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        let path = self.field.join(key);
        if resolve_lenient(body.value(), &path).is_some() {
            patch.set(&path, Value::Null);
        } else if patch.get(&path).is_some() {
            patch.remove_key(&path);
        }
        Ok(())
    }

    fn touch(
        &self,
        body: &Body,
        patch: &mut Patch,
        value: Option<&str>,
    ) -> Result<(), StorageError> {
        let present = resolve_lenient(body.value(), &self.touch_field).unwrap_or(&Value::Null);
        let value = Value::from(value);
        if *present != value {
            patch.set(&self.touch_field, value);
        }
        Ok(())
    }

    fn clear(&self, essence: &mut Value) -> Result<(), StorageError> {
        if let Value::Object(map) = essence {
            field::remove(map, &self.field);
        }
        drop_empty_stanzas(essence);
        Ok(())
    }
}
