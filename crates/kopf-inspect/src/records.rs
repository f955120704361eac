//! Progress records of an object, found without the list of its handlers.
//!
//! The names of annotations are derived from the ids of handlers, and the derivation loses
//! information: `/` becomes `.`, and long ids are replaced by a hash. Full ids are recovered where
//! they are stored: in the references of parents to their sub-handlers, in attempted essences, in
//! requests, and in the status. Otherwise the name of the annotation is used.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kopf_core::body::Body;
use kopf_core::object::attempted::AttemptedEssences;
use kopf_core::object::retriggering::Request;
use kopf_core::progress::ProgressRecord;
use serde_json::Value;

use crate::annotations::{COPIED, is_known, record};
use crate::recognition::records_in_status;
use crate::storages::{Storages, own_annotations};

/// The length of the hash at the end of shortened names.
const HASH: usize = 7;

/// The progress of one handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerProgress {
    /// The id of the handler, or the name of the annotation if the id is not stored.
    pub id: String,
    /// The record.
    pub record: ProgressRecord,
    /// The id of the parent, if it is a sub-handler.
    pub parent: Option<String>,
}

impl HandlerProgress {
    /// Returns `true` if the handler has succeeded or failed permanently.
    pub fn is_finished(&self) -> bool {
        self.record.success || self.record.failure
    }

    /// Returns the time from the first attempt to the end of the handler, or to now while it is not
    /// finished; `None` if the record has no such times.
    pub fn elapsed(&self, now: Timestamp) -> Option<SignedDuration> {
        let end = if self.is_finished() {
            self.record.stopped?
        } else {
            now
        };
        let elapsed = end.duration_since(self.record.started?);
        Some(elapsed.max(SignedDuration::ZERO))
    }

    /// Returns the text of the last error. The original stores the text `None` for parents that
    /// wait for their sub-handlers.
    pub fn message(&self) -> Option<&str> {
        let message = self.record.message.as_deref();
        message.filter(|message| !message.is_empty() && *message != "None")
    }
}

/// All progress records of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectProgress {
    /// The records, parents before their sub-handlers.
    pub records: Vec<HandlerProgress>,
    /// The names of unknown annotations under the prefix.
    pub unknown: Vec<String>,
}

impl ObjectProgress {
    /// Reads all records of an object.
    pub fn of(storages: &Storages, body: &Body) -> Self {
        let mut stored = BTreeMap::new();
        let mut unknown = Vec::new();
        for own in own_annotations(storages, body) {
            match record(own.text) {
                Some(record) => drop(stored.insert(own.name, record)),
                None if is_known(own.name) => {}
                None => unknown.push(own.name.to_owned()),
            }
        }
        let mut records = named(storages, body, stored);
        for (id, record) in in_status(body) {
            records.entry(id).or_insert(record);
        }
        Self {
            records: arranged(records),
            unknown,
        }
    }

    /// Returns the record of a handler.
    pub fn get(&self, id: &str) -> Option<&HandlerProgress> {
        self.records.iter().find(|handler| handler.id == id)
    }
}

/// Maps the records of annotations to ids of handlers, one record per handler.
fn named(
    storages: &Storages,
    body: &Body,
    mut stored: BTreeMap<&str, ProgressRecord>,
) -> BTreeMap<String, ProgressRecord> {
    let mut records = BTreeMap::new();
    let mut take = |id: &str, stored: &mut BTreeMap<&str, ProgressRecord>| {
        let keys = storages.naming.keys(id, body);
        let names = keys.iter().filter_map(|key| key.rsplit('/').next());
        let names = names.map(|name| name.strip_suffix(COPIED).unwrap_or(name));
        if let Some(record) = first(names.filter_map(|name| stored.remove(name))) {
            records.insert(id.to_owned(), record);
        }
    };
    for id in known_ids(storages, body, &stored) {
        take(&id, &mut stored);
    }
    let names: Vec<String> = stored.keys().map(|&name| name.to_owned()).collect();
    for name in names {
        if !is_shortened_copy(&name, &stored) {
            take(&name, &mut stored);
        }
    }
    records
}

/// Returns the first item of an iterator, and consumes the others.
fn first<T>(items: impl Iterator<Item = T>) -> Option<T> {
    items.fold(None, |first, item| first.or(Some(item)))
}

/// Returns the ids that are stored in full.
fn known_ids(
    storages: &Storages,
    body: &Body,
    stored: &BTreeMap<&str, ProgressRecord>,
) -> BTreeSet<String> {
    let attempted = AttemptedEssences::fetch(&storages.naming.clone().into(), body);
    let request = Request::fetch(&storages.naming, body);
    let subrefs = stored
        .values()
        .flat_map(|record| record.subrefs.iter().cloned());
    let attempts = attempted.ids().map(str::to_owned);
    let requested = request.into_iter().flat_map(|request| request.handlers);
    subrefs.chain(attempts).chain(requested).collect()
}

/// Returns `true` for the older, shorter name of a record that is also stored under a longer name.
fn is_shortened_copy(name: &str, stored: &BTreeMap<&str, ProgressRecord>) -> bool {
    let Some(head) = name.len().checked_sub(HASH).and_then(|end| name.get(..end)) else {
        return false;
    };
    let own = stored.get(name);
    stored.iter().any(|(other, record)| {
        *other != name && other.len() > name.len() && other.starts_with(head) && Some(record) == own
    })
}

/// Returns the records in the status: those of the default field, which may be incomplete, and those
/// that are recognised elsewhere.
fn in_status(body: &Body) -> impl Iterator<Item = (String, ProgressRecord)> {
    let records = body.status().pointer("/kopf/progress");
    let records = records.and_then(Value::as_object).into_iter().flatten();
    let usual =
        records.filter_map(|(id, value)| Some((id.clone(), ProgressRecord::from_value(value)?)));
    let found = records_in_status(body).into_iter();
    let found = found.flat_map(|(_, records)| records);
    usual.chain(found.map(|(id, record)| (id.clone(), record)))
}

/// Sorts sub-handlers after their parents.
fn arranged(records: BTreeMap<String, ProgressRecord>) -> Vec<HandlerProgress> {
    let mut parents: BTreeMap<String, String> = BTreeMap::new();
    // Nested sub-handlers are listed by all their parents: the closest one has the longest id.
    for (id, record) in &records {
        for sub in &record.subrefs {
            let parent = parents.entry(sub.clone()).or_insert_with(|| id.clone());
            if id.len() > parent.len() {
                parent.clone_from(id);
            }
        }
    }
    // Ids of sub-handlers start with those of their parents, so they are sorted by id.
    let progress = records.into_iter().map(|(id, record)| HandlerProgress {
        parent: parents.get(&id).cloned(),
        id,
        record,
    });
    progress.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(annotations: &Value) -> Body {
        Body::new(json!({"metadata": {"annotations": annotations}}))
    }

    fn ids(body: &Body) -> Vec<String> {
        let progress = ObjectProgress::of(&Storages::default(), body);
        progress
            .records
            .into_iter()
            .map(|handler| handler.id)
            .collect()
    }

    const DONE: &str = r#"{"retries":1,"success":true,"failure":false}"#;

    #[test]
    fn ids_of_sub_handlers_are_recovered() {
        let parent = r#"{"retries":1,"subrefs":["make/a","make/b"]}"#;
        let body = body(&json!({
            "kopf.zalando.org/make": parent, "kopf.zalando.org/make.a": DONE,
            "kopf.zalando.org/make.c": DONE,
        }));
        assert_eq!(ids(&body), ["make", "make.c", "make/a"]);
        let progress = ObjectProgress::of(&Storages::default(), &body);
        let sub = progress.get("make/a").unwrap();
        assert_eq!(sub.parent.as_deref(), Some("make"));
        assert!(sub.is_finished());
    }

    #[test]
    fn durations_end_with_the_handler() {
        let now = kopf_core::timestamp::parse("2026-01-02T03:04:05Z").unwrap();
        let seconds = |record: Value| {
            let progress = HandlerProgress {
                id: "fn".to_owned(),
                record: ProgressRecord::from_value(&record).unwrap(),
                parent: None,
            };
            progress.elapsed(now).map(|elapsed| elapsed.as_secs_f64())
        };
        let (started, stopped) = ("2026-01-02T03:04:00Z", "2026-01-02T03:04:01.5Z");
        assert_eq!(seconds(json!({"started": started})), Some(5.0));
        let finished = json!({"started": started, "stopped": stopped, "success": true});
        assert_eq!(seconds(finished), Some(1.5));
        assert_eq!(seconds(json!({"started": started, "failure": true})), None);
        assert_eq!(seconds(json!({})), None);
        assert_eq!(
            seconds(json!({"started": "2026-01-02T03:05:00Z"})),
            Some(0.0)
        );
    }

    #[test]
    fn both_names_of_a_long_id_are_one_record() {
        for id in [
            "a".repeat(50),
            "a".repeat(70),
            format!("{}/b", "a".repeat(70)),
        ] {
            let storages = Storages::default();
            let keys = storages.naming.keys(&id, &body(&json!({})));
            assert_eq!(keys.len(), 2);
            let annotations = keys.iter().map(|key| (key.clone(), json!(DONE)));
            let body = body(&Value::Object(annotations.collect()));
            assert_eq!(
                ObjectProgress::of(&storages, &body).records.len(),
                1,
                "{id}"
            );
        }
    }

    #[test]
    fn foreign_and_garbled_annotations_are_reported_and_not_read() {
        let body = body(&json!({
            "kopf.zalando.org/last-handled-configuration": "{}", "kopf.zalando.org/touch-dummy": "x",
            "kopf.zalando.org/garbage": "{", "kopf.zalando.org/text": "yes",
            "kopf.zalando.org/list": "[]", "kopf.zalando.org/null": "null",
            "other.example/fn": DONE, "plain": DONE, "kopf.zalando.org.evil/x": DONE,
            "kopf.zalando.org/number": 5,
        }));
        let progress = ObjectProgress::of(&Storages::default(), &body);
        assert_eq!(progress.records, []);
        assert_eq!(progress.unknown, ["garbage", "list", "null", "text"]);
    }

    #[test]
    fn records_in_the_status_are_read_and_annotations_go_first() {
        let body = Body::new(json!({
            "metadata": {"annotations": {"kopf.zalando.org/fn": DONE}},
            "status": {"kopf": {"progress": {
                "fn": {"retries": 5}, "make/a.b": {"retries": 2}, "bad": 1,
            }}},
        }));
        assert_eq!(ids(&body), ["fn", "make/a.b"]);
        let progress = ObjectProgress::of(&Storages::default(), &body);
        assert_eq!(progress.get("fn").unwrap().record.retries, 1);
        let garbled = Body::new(json!({"metadata": [], "status": {"kopf": {"progress": []}}}));
        assert_eq!(ids(&garbled), Vec::<String>::new());
    }

    #[test]
    fn copies_of_the_annotations_of_deployments_are_ignored() {
        let body = Body::new(json!({
            "kind": "ReplicaSet",
            "metadata": {
                "ownerReferences": [{"kind": "Deployment"}],
                "annotations": {
                    "kopf.zalando.org/copied": DONE, "kopf.zalando.org/own-ofDRS": DONE,
                },
            },
        }));
        assert_eq!(ids(&body), ["own"]);
    }
}
