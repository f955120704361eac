//! Attempted essences: which state of the object each unfinished cause's handlers were called with.
//!
//! A change that arrives while other handlers of the same cause still run or wait must not be lost
//! for the handlers that have finished. So the essence of the last attempt of every handler is kept
//! beside its progress record. When the cause is over and some of these essences are outdated, the
//! diff-base is composed so that an update with exactly the missed changes follows.
//!
//! Stored in the annotation `<prefix>/attempted-essences`, or beside progress records in the status, as
//! `{"essences":[…],"attempts":{"<id>":{"essence":0,"started":"…","retries":1}}}`, the oldest essence
//! first. An attempt counts only while the progress record of its handler has the same `started`
//! and `retries`: records written by other operators make it void.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::body::Body;
use crate::encoding::to_json_text;
use crate::equality::equal;
use crate::essence::{drop_annotations, drop_empty_stanzas};
use crate::field::{self, FieldPath, resolve_lenient};
use crate::keys::KeyNaming;
use crate::lenient;
use crate::patch::Patch;
use crate::progress::{ProgressRecord, ProgressStorage};
use crate::timestamp;

/// The name of the annotation, without its prefix.
pub const KEY: &str = "attempted-essences";

/// The largest text in a status, in bytes: as much as in annotations.
const MAX_STATUS_SIZE: usize = 256 * 1024;

/// The place of attempted essences on an object: that of its progress records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    naming: KeyNaming,
    /// The field of the status, if the records are only in the status. The annotation is then only
    /// removed: it can be left of another setting.
    field: Option<FieldPath>,
}

impl Place {
    /// Returns the place for this storage: the given annotation, or a field beside the records.
    pub fn new(naming: KeyNaming, storage: &dyn ProgressStorage) -> Self {
        let field = storage.status_field().map(|records| {
            let beside = records.steps().split_last();
            let parent = beside.map(|(_, parent)| parent.iter().cloned().collect::<FieldPath>());
            let parent = parent.filter(|parent| !parent.is_root());
            parent.unwrap_or_else(|| records.clone()).join(KEY)
        });
        Self { naming, field }
    }

    /// Returns the naming of annotations.
    pub fn naming(&self) -> &KeyNaming {
        &self.naming
    }

    fn keys(&self, body: &Body) -> Vec<String> {
        self.naming.keys(KEY, body)
    }

    fn text<'a>(&self, body: &'a Body) -> Option<&'a str> {
        match &self.field {
            Some(field) => resolve_lenient(body.value(), field)?.as_str(),
            None => self.keys(body).iter().find_map(|key| body.annotation(key)),
        }
    }

    fn has_annotation(&self, body: &Body) -> bool {
        !body.annotations().is_empty()
            && self
                .keys(body)
                .iter()
                .any(|key| body.annotation(key).is_some())
    }
}

impl From<KeyNaming> for Place {
    /// Returns the place in annotations.
    fn from(naming: KeyNaming) -> Self {
        let field = None;
        Self { naming, field }
    }
}

/// One attempt of one handler, identified by the progress record it has led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Attempt {
    essence: usize,
    started: Option<Timestamp>,
    retries: u32,
}

/// The essences of the last attempts of all handlers and sub-handlers of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct AttemptedEssences {
    essences: Vec<Arc<Value>>,
    attempts: BTreeMap<String, Attempt>,
}

impl AttemptedEssences {
    /// Reads the stored text. Returns nothing for an absent or unreadable one: then every record
    /// counts as made with the current essence.
    pub fn fetch(place: &Place, body: &Body) -> Self {
        let text = place.text(body);
        text.and_then(Self::parse).unwrap_or_default()
    }

    /// Returns `true` if anything is stored on the object.
    pub fn is_stored(place: &Place, body: &Body) -> bool {
        place.has_annotation(body) || place.field.is_some() && place.text(body).is_some()
    }

    /// Adds the text to the patch, or its removal if there are no attempts.
    pub fn store(&self, place: &Place, body: &Body, patch: &mut Patch) {
        let text = (!self.is_empty()).then(|| self.to_text());
        let annotation = text.as_deref().filter(|_| place.field.is_none());
        for key in place.keys(body) {
            put(
                patch,
                &annotation_path(&key),
                body.annotation(&key),
                annotation,
            );
        }
        if annotation.is_some() {
            place.naming.mark(body, patch);
        }
        if let Some(field) = &place.field {
            put(patch, field, place.text(body), text.as_deref());
        }
    }

    /// Returns `true` if the place has no room: annotations are limited by the server.
    pub fn is_oversized(&self, place: &Place) -> bool {
        place.field.is_some() && self.size() > MAX_STATUS_SIZE
    }

    /// Returns the size of the text in bytes.
    pub fn size(&self) -> usize {
        self.to_text().len()
    }

    /// Removes the text from an essence.
    pub fn strip(place: &Place, body: &Body, essence: &mut Value) {
        if place.has_annotation(body) {
            let keys = place.keys(body);
            drop_annotations(essence, |key| keys.iter().any(|own| own == key));
        }
        if let (Some(field), Value::Object(map)) = (&place.field, &mut *essence)
            && field::remove(map, field).is_some()
        {
            drop_empty_stanzas(essence);
        }
    }

    /// Returns `true` if there are no attempts.
    pub fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    /// Returns the ids of all handlers with attempts.
    pub fn ids(&self) -> impl Iterator<Item = &str> {
        self.attempts.keys().map(String::as_str)
    }

    /// Records an attempt that has led to this progress record.
    pub fn note(&mut self, id: &str, record: &ProgressRecord, essence: &Arc<Value>) {
        self.attempts.remove(id);
        self.drop_unused();
        let known = self.essences.iter().position(|known| equal(known, essence));
        let position = known.unwrap_or_else(|| {
            self.essences.push(Arc::clone(essence));
            self.essences.len() - 1
        });
        let attempt = Attempt {
            essence: position,
            started: stored_moment(record),
            retries: record.retries,
        };
        self.attempts.insert(id.to_owned(), attempt);
    }

    /// Keeps only the attempts of these handlers.
    pub fn retain(&mut self, mut is_kept: impl FnMut(&str) -> bool) {
        self.attempts.retain(|id, _| is_kept(id));
        self.drop_unused();
    }

    /// Drops the attempts that their handlers' records do not confirm.
    pub fn validate<'a>(&mut self, record: impl Fn(&str) -> Option<&'a ProgressRecord>) {
        self.attempts.retain(|id, attempt| {
            record(id).is_some_and(|record| {
                // Records that were reset are started before their next attempt.
                let is_reset = attempt.retries == 0 && attempt.started.is_none();
                let is_same = is_reset || stored_moment(record) == attempt.started;
                is_same && record.retries == attempt.retries
            })
        });
        self.drop_unused();
    }

    /// Returns the handlers whose last attempt was made with another essence than this one.
    pub fn outdated(&self, current: &Value) -> BTreeSet<&str> {
        let is_outdated = |attempt: &Attempt| {
            let essence = self.essences.get(attempt.essence);
            essence.is_some_and(|essence| !equal(essence, current))
        };
        let outdated = self.attempts.iter();
        let outdated = outdated.filter(|(_, attempt)| is_outdated(attempt));
        outdated.map(|(id, _)| id.as_str()).collect()
    }

    /// Composes the diff-base from which an update with all missed changes follows: at each leaf,
    /// the value of the oldest attempted essence that differs there, otherwise the current value.
    pub fn compose(&self, current: &Value) -> Value {
        let essences: Vec<Option<&Value>> = self.essences.iter().map(|e| Some(&**e)).collect();
        compose(Some(current), &essences).unwrap_or(Value::Null)
    }

    fn drop_unused(&mut self) {
        let used: BTreeSet<usize> = self
            .attempts
            .values()
            .map(|attempt| attempt.essence)
            .collect();
        if used.len() == self.essences.len() {
            return;
        }
        let mut kept = Vec::with_capacity(used.len());
        for (position, old) in used.into_iter().enumerate() {
            let attempts = self.attempts.values_mut();
            for attempt in attempts.filter(|attempt| attempt.essence == old) {
                attempt.essence = position;
            }
            kept.extend(self.essences.get(old).cloned());
        }
        self.essences = kept;
    }

    fn to_text(&self) -> String {
        let attempts: Map<String, Value> = self
            .attempts
            .iter()
            .map(|(id, attempt)| {
                let started = attempt.started.map(timestamp::format);
                let retries = attempt.retries;
                let value =
                    json!({"essence": attempt.essence, "started": started, "retries": retries});
                (id.clone(), value)
            })
            .collect();
        let essences: Vec<&Value> = self.essences.iter().map(|essence| &**essence).collect();
        to_json_text(&json!({"essences": essences, "attempts": attempts}))
    }

    fn parse(text: &str) -> Option<Self> {
        let value = lenient::from_str(text).ok()?;
        let essences = value.get("essences")?.as_array()?;
        let essences: Vec<_> = essences.iter().cloned().map(Arc::new).collect();
        let attempts = value.get("attempts")?.as_object()?.iter();
        let attempts = attempts.filter_map(|(id, attempt)| {
            let essence = usize::try_from(attempt.get("essence")?.as_u64()?).ok()?;
            let started = attempt.get("started").and_then(Value::as_str);
            let attempt = Attempt {
                essence: Some(essence).filter(|essence| *essence < essences.len())?,
                started: started.and_then(|text| timestamp::parse(text).ok()),
                retries: u32::try_from(attempt.get("retries")?.as_u64()?).ok()?,
            };
            Some((id.clone(), attempt))
        });
        let attempts = attempts.collect();
        let mut this = Self { essences, attempts };
        this.drop_unused();
        Some(this)
    }
}

/// Returns when a handler was started, with the resolution of stored records: attempts that are kept
/// in memory are compared with records that were stored and loaded.
fn stored_moment(record: &ProgressRecord) -> Option<Timestamp> {
    let started = record.started?;
    Timestamp::from_microsecond(started.as_microsecond()).ok()
}

/// Returns the essence that an attempt is recorded with: the predicted one with the patch applied,
/// because own changes are not news. Where the prediction equals the diff-base but not the current
/// essence, it is likely to be reverted by the server as it was before (a normalised or pruned value),
/// and the current value is taken: otherwise updates would follow forever.
pub fn settle_prediction(old: Option<&Value>, current: &Value, predicted: &Value) -> Value {
    settle(old, Some(current), Some(predicted)).unwrap_or(Value::Null)
}

fn settle(
    old: Option<&Value>,
    current: Option<&Value>,
    predicted: Option<&Value>,
) -> Option<Value> {
    if let (Some(Value::Object(now)), Some(Value::Object(then))) = (current, predicted) {
        let keys: BTreeSet<&String> = now.keys().chain(then.keys()).collect();
        let fields = keys.into_iter().filter_map(|key| {
            let old = old.and_then(|old| old.get(key));
            Some((key.clone(), settle(old, now.get(key), then.get(key))?))
        });
        return Some(Value::Object(fields.collect()));
    }
    let is_reverted = match (old, predicted) {
        (Some(old), Some(predicted)) => equal(old, predicted),
        _ => false,
    };
    if is_reverted {
        current.cloned()
    } else {
        predicted.cloned()
    }
}

/// Changes a stored text, or leaves it as it is.
fn put(patch: &mut Patch, path: &FieldPath, stored: Option<&str>, text: Option<&str>) {
    if stored == text {
        patch.remove_key(path);
    } else {
        patch.set(path, text.map_or(Value::Null, Value::from));
    }
}

fn annotation_path(key: &str) -> FieldPath {
    FieldPath::root()
        .join("metadata")
        .join("annotations")
        .join(key)
}

/// Composes one value; `None` is an absent one.
fn compose(current: Option<&Value>, essences: &[Option<&Value>]) -> Option<Value> {
    let differs = |essence: Option<&Value>| match (essence, current) {
        (Some(essence), Some(current)) => !equal(essence, current),
        (essence, current) => essence.is_some() != current.is_some(),
    };
    let Some(oldest) = essences.iter().copied().find(|essence| differs(*essence)) else {
        return current.cloned();
    };
    // A stanza that only one side has is a leaf: it was added or removed as a whole.
    let (Some(Value::Object(now)), Some(Value::Object(_))) = (current, oldest) else {
        return oldest.cloned();
    };
    let stanzas = essences
        .iter()
        .filter_map(|essence| essence.and_then(Value::as_object));
    let keys: BTreeSet<&String> = stanzas.flat_map(Map::keys).chain(now.keys()).collect();
    let fields = keys.into_iter().filter_map(|key| {
        let inner: Vec<_> = essences
            .iter()
            .map(|essence| essence.and_then(|essence| essence.get(key)))
            .collect();
        Some((key.clone(), compose(now.get(key), &inner)?))
    });
    Some(Value::Object(fields.collect()))
}

#[cfg(test)]
mod tests;
