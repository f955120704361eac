//! What must be true in the end, whatever has happened.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cluster::History;
use crate::ledger::{Entry, Step};
use crate::workload::Workload;

const PREFIX: &str = "kopf.zalando.org/";
const LAST_HANDLED: &str = "last-handled-configuration";

/// What is still to be done before the objects are as they should be.
pub(crate) fn unsettled(objects: &[Value], workload: &Workload) -> Vec<String> {
    let mut problems = Vec::new();
    let present: BTreeSet<&str> = objects.iter().filter_map(|object| name(object)).collect();
    for gone in workload
        .live
        .keys()
        .filter(|name| !present.contains(name.as_str()))
    {
        problems.push(format!("{gone} is missing"));
    }
    for object in objects {
        let name = name(object).unwrap_or_default();
        let Some(field) = workload.live.get(name) else {
            problems.push(format!("{name} is not gone"));
            continue;
        };
        problems.extend(unfinished(object, *field).map(|problem| format!("{name}: {problem}")));
    }
    problems
}

fn name(object: &Value) -> Option<&str> {
    object["metadata"]["name"].as_str()
}

/// What is not as it should be when all handlers are done.
fn unfinished(object: &Value, field: u64) -> Option<String> {
    let records: Vec<&str> = annotations(object)
        .map(|(key, _)| key)
        .filter(|key| *key != LAST_HANDLED)
        .collect();
    if !records.is_empty() {
        return Some(format!("progress is left: {}", records.join(", ")));
    }
    if handled(object).is_none_or(|handled| handled["spec"] != object["spec"]) {
        return Some("the last change is not handled".to_owned());
    }
    // A handler that has succeeded is not called again while others of the same cause still retry,
    // also if the object changes meanwhile. But the last one of them sees what is remembered.
    let status = &object["status"];
    let seen = [
        &status["make"]["field"],
        &status["change"]["field"],
        &status["meet"]["field"],
        &status["followed"],
    ];
    let last = seen.into_iter().filter_map(Value::as_u64).max();
    if last != Some(field) {
        return Some(format!("handlers have seen {last:?} instead of {field}"));
    }
    None
}

fn annotations(object: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let annotations = object["metadata"]["annotations"].as_object();
    annotations
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| {
            let key = key.strip_prefix(PREFIX)?;
            Some((key, value))
        })
}

fn handled(object: &Value) -> Option<Value> {
    let (_, stored) = annotations(object).find(|(key, _)| *key == LAST_HANDLED)?;
    serde_json::from_str(stored.as_str()?).ok()
}

/// What does not run beside the objects although it should, or does although it should not, in one
/// life of the operator.
pub(crate) fn astray(entries: &[Entry], process: u32, objects: &[Value]) -> Vec<String> {
    let mut problems = Vec::new();
    let (mut guarded, mut ticked) = (BTreeSet::new(), BTreeSet::new());
    for entry in entries.iter().filter(|entry| entry.process == process) {
        let uid = entry.uid.as_str();
        match (entry.handler.as_str(), entry.step) {
            ("guard", Step::Begun) => _ = guarded.insert(uid),
            ("guard", _) => _ = guarded.remove(uid),
            ("tick", Step::Succeeded) => _ = ticked.insert(uid),
            _ => {}
        }
    }
    for object in objects {
        let (name, uid) = (name(object).unwrap_or_default(), &object["metadata"]["uid"]);
        let uid = uid.as_str().unwrap_or_default();
        if !guarded.remove(uid) {
            problems.push(format!("{name}: the daemon does not run"));
        }
        if !ticked.contains(uid) {
            problems.push(format!("{name}: the timer was not called"));
        }
    }
    problems.extend(
        guarded
            .into_iter()
            .map(|uid| format!("object {uid} is gone, its daemon is not")),
    );
    problems
}

/// What has happened although it must not.
pub(crate) fn violations(entries: &[Entry], history: &History, workload: &Workload) -> Vec<String> {
    let mut found = Vec::new();
    for entry in entries {
        match entry.step {
            Step::Begun => found.extend(repetition(entry, history)),
            Step::Wrong => found.push(format!("{} (object {})", entry.handler, entry.uid)),
            Step::Succeeded | Step::Failed | Step::Dropped => {}
        }
    }
    found.extend(overlaps(entries));
    for uid in &workload.deleted {
        let unmade = |entry: &Entry| entry.handler == "unmake" && entry.step == Step::Succeeded;
        if !entries
            .iter()
            .any(|entry| entry.uid == *uid && unmade(entry))
        {
            found.push(format!(
                "object {uid} has vanished without its handler of deletions"
            ));
        }
    }
    found
}

/// A handler that ran although the very version it was called with says that it has succeeded.
fn repetition(entry: &Entry, history: &History) -> Option<String> {
    if entry.reason.is_empty() {
        return None;
    }
    let object = history.version(&entry.uid, &entry.version)?;
    let key = entry.handler.replace('/', ".");
    let record = annotations(&object).find(|(name, _)| *name == key);
    let record: Option<Value> =
        record.and_then(|(_, text)| serde_json::from_str(text.as_str()?).ok());
    let succeeded = record.is_some_and(|record| {
        record["success"] == true && record["purpose"] == entry.reason.as_str()
    });
    let is_change = matches!(entry.reason.as_str(), "create" | "update");
    let finished =
        is_change && handled(&object).is_some_and(|handled| handled["spec"] == object["spec"]);
    (succeeded || finished).then(|| {
        format!(
            "{} ran again for {} of object {} in version {}, which was over",
            entry.handler, entry.reason, entry.uid, entry.version
        )
    })
}

/// Handlers of one object that ran at the same time in the same process. Sub-handlers run inside of
/// their parents, and what runs in the background is meant to.
fn overlaps(entries: &[Entry]) -> Vec<String> {
    let mut found = Vec::new();
    let mut running: BTreeMap<(u32, &str), BTreeSet<&str>> = BTreeMap::new();
    for entry in entries
        .iter()
        .filter(|entry| !entry.handler.contains('/') || entry.handler.starts_with("follow"))
    {
        let handlers = running.entry((entry.process, &entry.uid)).or_default();
        let is_new = match entry.step {
            Step::Begun => {
                let is_alone = handlers.is_empty()
                    || is_background(&entry.handler)
                    || handlers.iter().all(|other| is_background(other));
                if !is_alone {
                    found.push(format!(
                        "{} began while {handlers:?} ran, for object {}",
                        entry.handler, entry.uid
                    ));
                }
                handlers.insert(&entry.handler)
            }
            Step::Wrong => true,
            _ => handlers.remove(&*entry.handler),
        };
        if !is_new {
            found.push(format!(
                "{} was running twice for object {}",
                entry.handler, entry.uid
            ));
        }
    }
    found
}

fn is_background(handler: &str) -> bool {
    matches!(handler, "guard" | "tick")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::Step::{Begun, Failed, Succeeded};
    use super::*;

    fn entry(step: Step, handler: &str, version: &str, reason: &str) -> Entry {
        Entry {
            process: 1,
            step,
            handler: handler.to_owned(),
            uid: "uid".to_owned(),
            version: version.to_owned(),
            reason: reason.to_owned(),
        }
    }

    fn object(annotations: &Value, status: &Value) -> Value {
        json!({
            "metadata": {"name": "x", "uid": "uid", "resourceVersion": "5", "annotations": annotations},
            "spec": {"field": 7},
            "status": status,
        })
    }

    fn done() -> Value {
        json!({"kopf.zalando.org/last-handled-configuration": r#"{"spec":{"field":7}}"#})
    }

    fn workload() -> Workload {
        let mut workload = Workload::default();
        workload.live.insert("x".to_owned(), 7);
        workload
    }

    #[test]
    fn what_is_done_is_settled() {
        let status = json!({"make": {"field": 3}, "change": {"field": 7}});
        let object = object(&done(), &status);
        assert!(unsettled(&[object], &workload()).is_empty());
    }

    #[test]
    fn whatever_is_not_done_is_told() {
        let mut outdated = object(&done(), &json!({"make": {"field": 7}}));
        outdated["spec"]["field"] = json!(8);
        let mut left = done();
        left["kopf.zalando.org/make"] = json!("{}");
        for (objects, problem) in [
            (vec![], "x is missing"),
            (vec![outdated], "x: the last change is not handled"),
            (vec![object(&left, &json!({}))], "x: progress is left: make"),
            (
                vec![object(&done(), &json!({"make": {"field": 3}}))],
                "x: handlers have seen Some(3) instead of 7",
            ),
        ] {
            assert_eq!(unsettled(&objects, &workload()), [problem]);
        }
        let there = object(&done(), &json!({}));
        assert_eq!(unsettled(&[there], &Workload::default()), ["x is not gone"]);
    }

    #[test]
    fn repetitions_are_found_in_the_version_that_the_handler_saw() {
        let history = History::default();
        let record = r#"{"purpose":"update","success":true}"#;
        let annotations = json!({"kopf.zalando.org/make.item0": record});
        history.add("uid", "5", object(&annotations, &json!({})));
        history.add("uid", "6", object(&done(), &json!({})));
        let found = |handler, version, reason| {
            let begun = entry(Step::Begun, handler, version, reason);
            violations(&[begun], &history, &Workload::default()).len()
        };
        assert_eq!(found("make/item0", "5", "update"), 1, "it is recorded");
        assert_eq!(found("make/item0", "5", "create"), 0, "another cause");
        assert_eq!(found("make/item1", "5", "update"), 0, "another handler");
        assert_eq!(found("change", "6", "update"), 1, "nothing has changed");
        assert_eq!(found("unmake", "6", "delete"), 0, "it is not about changes");
        assert_eq!(found("change", "7", "update"), 0, "nobody knows");
    }

    #[test]
    fn handlers_that_overlap_are_found() {
        let steps = |steps: &[(Step, &str)]| {
            let entries: Vec<_> = steps
                .iter()
                .map(|(step, handler)| entry(*step, handler, "5", ""))
                .collect();
            violations(&entries, &History::default(), &Workload::default()).len()
        };
        let one_by_one = [
            (Begun, "make"),
            (Failed, "make"),
            (Begun, "make"),
            (Succeeded, "make"),
        ];
        assert_eq!(steps(&one_by_one), 0);
        assert_eq!(steps(&[(Begun, "make"), (Begun, "change")]), 1);
        assert_eq!(
            steps(&[(Begun, "make"), (Begun, "make/item")]),
            0,
            "inside of it"
        );
        assert_eq!(
            steps(&[(Begun, "guard"), (Begun, "change")]),
            0,
            "beside it"
        );
        assert_eq!(steps(&[(Begun, "guard"), (Begun, "guard")]), 1, "twice");
    }

    #[test]
    fn daemons_and_timers_go_with_their_objects() {
        let here = object(&json!({}), &json!({}));
        let begun = entry(Begun, "guard", "5", "");
        let ticked = entry(Succeeded, "tick", "5", "");
        let ended = entry(Succeeded, "guard", "6", "");
        let found = |entries: &[&Entry], objects: &[Value]| {
            let entries: Vec<Entry> = entries.iter().copied().cloned().collect();
            astray(&entries, 1, objects)
        };
        let objects = [here];
        assert!(found(&[&begun, &ticked], &objects).is_empty());
        assert!(found(&[&begun, &ticked, &ended], &[]).is_empty());
        assert_eq!(found(&[&ticked], &objects), ["x: the daemon does not run"]);
        assert_eq!(found(&[&begun], &objects), ["x: the timer was not called"]);
        assert_eq!(
            found(&[&begun], &[]),
            ["object uid is gone, its daemon is not"]
        );
        assert_eq!(
            astray(&[begun, ticked], 2, &objects).len(),
            2,
            "another life"
        );
    }

    #[test]
    fn objects_do_not_vanish_unnoticed() {
        let mut workload = Workload::default();
        workload.deleted.push("uid".to_owned());
        let history = History::default();
        assert_eq!(violations(&[], &history, &workload).len(), 1);
        let unmade =
            [Step::Begun, Step::Succeeded].map(|step| entry(step, "unmake", "5", "delete"));
        assert!(violations(&unmade, &history, &workload).is_empty());
    }
}
