//! Round trip of all recorded state of the original.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helper functions of tests are tests, too"
)]

use std::path::{Path, PathBuf};

use kopf_core::body::Body;
use kopf_core::diff::diff;
use kopf_core::diffbase::{AnnotationsDiffBaseStorage, DiffBaseStorage};
use kopf_core::encoding::to_json_text;
use kopf_core::field::FieldPath;
use kopf_core::patch::Patch;
use kopf_core::progress::{
    AnnotationsProgressStorage, ProgressRecord, ProgressStorage, SmartProgressStorage,
};
use serde_json::Value;

/// Returns the recordings of handlers: daemons and webhooks store nothing.
fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let mut found: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("calls.json").is_file() && path.join("objects.json").is_file())
        .collect();
    found.sort();
    assert!(found.len() >= 10, "the recordings are not there: {found:?}");
    found
}

fn read(folder: &Path, file: &str) -> Vec<Value> {
    serde_json::from_slice(&std::fs::read(folder.join(file)).unwrap()).unwrap()
}

/// Returns all merge patches and all objects of all recordings.
fn documents() -> Vec<Value> {
    let mut documents = Vec::new();
    for folder in recordings() {
        documents.extend(
            read(&folder, "calls.json")
                .into_iter()
                .map(|mut call| call["body"].take()),
        );
        documents.extend(
            read(&folder, "objects.json")
                .into_iter()
                .map(|mut item| item["object"].take()),
        );
    }
    documents
}

fn annotations() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for document in documents() {
        let body = Body::new(document);
        let texts = body
            .annotations()
            .iter()
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        found.extend(texts);
    }
    found
}

#[test]
fn progress_records_match_the_recordings() {
    let mut seen = 0;
    for (key, text) in annotations() {
        if !text.starts_with("{\"started\":") {
            continue;
        }
        seen += 1;
        let record = ProgressRecord::from_value(&serde_json::from_str(&text).unwrap()).unwrap();
        let (name, prefix) = (
            key.split_once('/').unwrap().1,
            key.split_once('/').unwrap().0,
        );
        let storage = AnnotationsProgressStorage::new(prefix).unwrap().v1(false);
        let mut patch = Patch::default();
        storage
            .store(name, &record, &Body::new(Value::Null), &mut patch)
            .unwrap();
        let path = FieldPath::from_iter(["metadata", "annotations", &key]);
        assert_eq!(
            patch.get(&path).and_then(Value::as_str),
            Some(text.as_str())
        );
    }
    assert!(seen >= 30, "{seen}");
}

#[test]
fn texts_beyond_ascii_were_recorded() {
    let text = annotations()
        .into_iter()
        .find(|(_, text)| text.contains(r"\u00e4\u4e2d"));
    let value = serde_json::from_str(&text.unwrap().1).unwrap();
    assert_eq!(
        ProgressRecord::from_value(&value)
            .unwrap()
            .message
            .as_deref(),
        Some("ä中")
    );
}

#[test]
fn last_handled_configurations_match_the_recordings() {
    let mut seen = 0;
    for (key, text) in annotations() {
        if !key.ends_with("/last-handled-configuration") && !key.ends_with("/last") {
            continue;
        }
        seen += 1;
        let essence: Value = serde_json::from_str(&text).unwrap();
        let ours = to_json_text(&essence) + "\n";
        // Only the order of keys may differ.
        let sorted = |text: &str| {
            let mut bytes = text.as_bytes().to_vec();
            bytes.sort_unstable();
            bytes
        };
        assert_eq!(sorted(&ours), sorted(&text), "{ours} {text}");
    }
    assert!(seen >= 20, "{seen}");
}

#[test]
fn handled_objects_have_no_changes() {
    let mut handled = 0;
    // There, an object leaves the scope of its handlers intentionally.
    let all = recordings()
        .into_iter()
        .filter(|path| !path.ends_with("s17-stealth-filters"));
    for folder in all {
        for item in read(&folder, "objects.json") {
            let body = Body::new(item["object"].clone());
            let storage = AnnotationsDiffBaseStorage::default();
            let progress = SmartProgressStorage::default();
            let Some(mut old) = storage.fetch(&body).unwrap() else {
                continue;
            };
            let mut new = storage.build(&body, &[]).unwrap();
            progress.clear(&mut old).unwrap();
            progress.clear(&mut new).unwrap();
            let in_progress = body.annotations().len() > 1;
            let found = diff(&old, &new);
            assert!(
                found.is_empty() || in_progress,
                "{}: {found}",
                folder.display()
            );
            handled += usize::from(found.is_empty());
        }
    }
    assert!(handled >= 10, "{handled}");
}

#[test]
fn records_are_found_by_the_ids_of_their_handlers() {
    let long = "a-very-long-handler-id-that-goes-well-beyond-the-limit-of-sixty-three-characters\
                /with-parts/spec.field";
    let ids = [
        "a-handler-name-of-exactly-fifty-characters-in-total",
        long,
        "outer.<locals>.inner",
    ];
    let folder = recordings()
        .into_iter()
        .find(|path| path.ends_with("s14-long-ids"))
        .unwrap();
    let first = read(&folder, "calls.json").remove(0);
    let body = Body::new(first["body"].clone());
    let storage = SmartProgressStorage::default();
    let mut purge = Patch::default();
    for id in ids {
        let record = storage.fetch(id, &body).unwrap().unwrap();
        assert_eq!(record.purpose.as_deref(), Some("create"));
        storage.purge(id, &body, &mut purge).unwrap();
    }
    // All of the five annotations (two of the ids have two) are removed.
    assert_eq!(purge.annotations_mut().len(), 5);
    assert!(purge.annotations_mut().keys().eq(body.annotations().keys()));
    assert!(purge.annotations_mut().values().all(Value::is_null));
}
