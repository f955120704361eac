//! Progress in annotations: one JSON string per handler, the default.

use serde_json::{Map, Value};

use super::record::{FIELDS, Verbose};
use super::{ProgressRecord, ProgressStorage, StorageError};
use crate::body::Body;
use crate::encoding::try_json_text;
use crate::essence::{drop_annotation_entries, drop_annotations};
use crate::keys::{self, KeyNaming};
use crate::lenient;
use crate::patch::Patch;
use crate::sizes::{
    MESSAGE_LIMIT, annotations_after, annotations_size, cut_or_drop, highest_limit,
};

/// A storage of records in `metadata.annotations`, which all objects have.
///
/// ```
/// use kopf_core::progress::AnnotationsProgressStorage;
///
/// let storage = AnnotationsProgressStorage::new("my-operator.example.com")?;
/// # Ok::<_, kopf_core::keys::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnnotationsProgressStorage {
    naming: KeyNaming,
    verbose: bool,
    touch_key: String,
}

impl Default for AnnotationsProgressStorage {
    fn default() -> Self {
        Self::named(KeyNaming::default())
    }
}

impl AnnotationsProgressStorage {
    /// Creates a storage with this prefix, usually a domain name of the operator.
    pub fn new(prefix: impl Into<String>) -> Result<Self, keys::Error> {
        KeyNaming::new(prefix, true).map(Self::named)
    }

    /// Sets whether absent fields are written as nulls. Off by default.
    #[must_use]
    pub fn verbose(self, verbose: bool) -> Self {
        Self { verbose, ..self }
    }

    /// Sets the name of the annotation for touching; `touch-dummy` by default.
    #[must_use]
    pub fn touch_key(self, touch_key: impl Into<String>) -> Self {
        Self {
            touch_key: touch_key.into(),
            ..self
        }
    }

    /// Sets whether the older names are written and read as well. On by default.
    #[must_use]
    pub fn v1(self, v1: bool) -> Self {
        Self {
            naming: self.naming.with_v1(v1),
            ..self
        }
    }

    /// Replaces names that the API server rejects with valid ones. Off by default.
    #[must_use]
    pub fn repairs(self, repairs: bool) -> Self {
        Self {
            naming: self.naming.with_repairs(repairs),
            ..self
        }
    }

    /// Returns the naming of the annotations.
    pub fn naming(&self) -> &KeyNaming {
        &self.naming
    }

    fn named(naming: KeyNaming) -> Self {
        Self {
            naming,
            verbose: false,
            touch_key: "touch-dummy".to_owned(),
        }
    }

    fn encode(&self, record: &ProgressRecord) -> Result<String, serde_json::Error> {
        if self.verbose {
            try_json_text(&Verbose(record))
        } else {
            try_json_text(record)
        }
    }

    /// Returns the records of this storage that have a message.
    fn messages<'a>(&self, annotations: &'a Map<String, Value>) -> Vec<Stored<'a>> {
        let own = annotations.iter().filter(|(place, value)| {
            // Plain names are ambiguous, so records are recognised by their content.
            let is_own = self.naming.prefix().is_empty() || self.naming.owns(place);
            is_own && is_record(value)
        });
        let records = own.filter_map(|(place, value)| {
            let text = value.as_str()?;
            let record = ProgressRecord::from_value(&lenient::from_str(text).ok()?)?;
            record.message.is_some().then_some(Stored {
                place,
                text,
                record,
            })
        });
        records.collect()
    }

    /// Encodes a record with its message shortened to the limit; the text as it is if that fails.
    fn shortened(&self, stored: &Stored<'_>, limit: usize) -> String {
        let message = stored.record.message.as_deref().unwrap_or_default();
        let record = ProgressRecord {
            message: cut_or_drop(message, limit),
            ..stored.record.clone()
        };
        self.encode(&record)
            .unwrap_or_else(|_| stored.text.to_owned())
    }
}

/// A record in an annotation.
struct Stored<'a> {
    place: &'a str,
    text: &'a str,
    record: ProgressRecord,
}

impl ProgressStorage for AnnotationsProgressStorage {
    fn leaves_no_trace(&self) -> bool {
        !self.naming.needs_mark()
    }

    fn fetch(&self, key: &str, body: &Body) -> Result<Option<ProgressRecord>, StorageError> {
        if body.annotations().is_empty() {
            return Ok(None);
        }
        for place in self.naming.keys(key, body) {
            let Some(text) = body.annotation(&place) else {
                continue;
            };
            match lenient::from_str(text) {
                Ok(Value::Null) => {}
                Ok(value) => {
                    let record = ProgressRecord::from_value(&value);
                    let expected = "a JSON object";
                    return record
                        .map(Some)
                        .ok_or(StorageError::Unexpected { place, expected });
                }
                Err(source) => return Err(StorageError::Undecodable { place, source }),
            }
        }
        Ok(None)
    }

    fn store(
        &self,
        key: &str,
        record: &ProgressRecord,
        body: &Body,
        patch: &mut Patch,
    ) -> Result<(), StorageError> {
        let failed = |source| StorageError::Unwritable {
            place: key.to_owned(),
            source,
        };
        let text = self.encode(record).map_err(failed)?;
        for place in self.naming.keys(key, body) {
            patch
                .annotations_mut()
                .insert(place, Value::from(text.as_str()));
        }
        self.naming.mark(body, patch);
        Ok(())
    }

    fn purge(&self, key: &str, body: &Body, patch: &mut Patch) -> Result<(), StorageError> {
        for place in self.naming.keys(key, body) {
            let path = ["metadata", "annotations", &place].into_iter().collect();
            if body.annotations().contains_key(&place) {
                patch.set(&path, Value::Null);
            } else if patch.get(&path).is_some() {
                patch.remove_key(&path);
            }
        }
        Ok(())
    }

    fn touch(
        &self,
        body: &Body,
        patch: &mut Patch,
        value: Option<&str>,
    ) -> Result<(), StorageError> {
        for place in self.naming.keys(&self.touch_key, body) {
            let present = body
                .annotations()
                .get(&place)
                .filter(|value| !value.is_null());
            if present.is_some() != value.is_some() || present.and_then(Value::as_str) != value {
                patch.annotations_mut().insert(place, Value::from(value));
                self.naming.mark(body, patch);
            }
        }
        Ok(())
    }

    fn clear(&self, essence: &mut Value) -> Result<(), StorageError> {
        if self.naming.prefix().is_empty() {
            // Plain names are ambiguous, so records are recognised by their content.
            let is_touch = |key: &str| key.starts_with(&*self.touch_key);
            drop_annotation_entries(essence, |key, value| is_touch(key) || is_record(value));
        } else {
            drop_annotations(essence, |key| self.naming.owns(key));
        }
        Ok(())
    }

    fn shorten(&self, body: &Body, patch: &mut Patch, limit: usize) -> Result<(), StorageError> {
        let size = annotations_size(body, &[patch]);
        if size <= limit {
            return Ok(());
        }
        let annotations = annotations_after(body, patch);
        let records = self.messages(&annotations);
        let encoded: usize = records.iter().map(|record| record.text.len()).sum();
        let room = limit.saturating_sub(size - encoded);
        let shortened_size = |limit| {
            let sizes = records
                .iter()
                .map(|record| self.shortened(record, limit).len());
            sizes.sum::<usize>()
        };
        let longest = highest_limit(MESSAGE_LIMIT, |limit| shortened_size(limit) <= room);
        for record in &records {
            let text = self.shortened(record, longest.unwrap_or_default());
            if text != record.text {
                patch
                    .annotations_mut()
                    .insert(record.place.to_owned(), Value::from(text));
            }
        }
        Ok(())
    }

    fn check_id(&self, id: &str) -> Result<(), StorageError> {
        Ok(self.naming.check(id)?)
    }
}

/// Returns `true` if the value of an annotation is a progress record.
fn is_record(value: &Value) -> bool {
    let text = value.as_str().filter(|text| text.starts_with('{'));
    let record = text.and_then(|text| lenient::from_str(text).ok());
    let Some(Value::Object(record)) = record else {
        return false;
    };
    let mut keys = record.keys();
    record.contains_key("retries") && keys.all(|key| FIELDS.contains(&key.as_str()))
}
