//! Checks of the final state and of the ledger.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cluster::History;
use crate::ledger::{Entry, Step};
use crate::workload::Workload;

const PREFIX: &str = "kopf.zalando.org/";
const LAST_HANDLED: &str = "last-handled-configuration";

/// Returns differences between the objects and their expected final state.
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
            problems.push(format!("{name} is not deleted"));
            continue;
        };
        problems.extend(unfinished(object, *field).map(|problem| format!("{name}: {problem}")));
    }
    problems
}

fn name(object: &Value) -> Option<&str> {
    object["metadata"]["name"].as_str()
}

/// Returns the reason why the handling of an object is not finished, if it is not.
fn unfinished(object: &Value, field: u64) -> Option<String> {
    let records: Vec<&str> = annotations(object)
        .map(|(key, _)| key)
        .filter(|key| *key != LAST_HANDLED)
        .collect();
    if !records.is_empty() {
        return Some(format!(
            "remaining progress records: {}",
            records.join(", ")
        ));
    }
    if handled(object).is_none_or(|handled| handled["spec"] != object["spec"]) {
        return Some("the last change is not handled".to_owned());
    }
    // A handler that has succeeded is not called again while others of the same cause are retried,
    // even if the object changes in the meantime. The last one sees the stored diff-base.
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

/// Returns missing and surplus daemons and timers of one process of the operator.
pub(crate) fn background_problems(
    entries: &[Entry],
    process: u32,
    objects: &[Value],
) -> Vec<String> {
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
            problems.push(format!("{name}: the daemon is not running"));
        }
        if !ticked.contains(uid) {
            problems.push(format!("{name}: the timer was not called"));
        }
    }
    problems.extend(
        guarded
            .into_iter()
            .map(|uid| format!("the daemon of the deleted object {uid} is running")),
    );
    problems
}

/// Returns repeated and overlapping handler calls, missed deletions, and violations reported by
/// handlers.
pub(crate) fn violations(entries: &[Entry], history: &History, workload: &Workload) -> Vec<String> {
    let mut found = Vec::new();
    for entry in entries {
        match entry.step {
            Step::Begun => found.extend(repetition(entry, history)),
            Step::Violation => found.push(format!("{} (object {})", entry.handler, entry.uid)),
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
                "object {uid} was deleted without its deletion handler"
            ));
        }
    }
    found
}

/// Finds a call of a handler with a version of the object in which its success is recorded.
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
            "{} was called again for {} of object {} in version {}, which was finished",
            entry.handler, entry.reason, entry.uid, entry.version
        )
    })
}

/// Finds handlers of one object that ran concurrently in one process. Sub-handlers run inside their
/// parents; daemons and timers run in the background.
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
                        "{} started during {handlers:?} of object {}",
                        entry.handler, entry.uid
                    ));
                }
                handlers.insert(&entry.handler)
            }
            Step::Violation => true,
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
    fn finished_objects_have_no_problems() {
        let status = json!({"make": {"field": 3}, "change": {"field": 7}});
        let object = object(&done(), &status);
        assert!(unsettled(&[object], &workload()).is_empty());
    }

    #[test]
    fn unfinished_objects_are_reported() {
        let mut outdated = object(&done(), &json!({"make": {"field": 7}}));
        outdated["spec"]["field"] = json!(8);
        let mut left = done();
        left["kopf.zalando.org/make"] = json!("{}");
        for (objects, problem) in [
            (vec![], "x is missing"),
            (vec![outdated], "x: the last change is not handled"),
            (
                vec![object(&left, &json!({}))],
                "x: remaining progress records: make",
            ),
            (
                vec![object(&done(), &json!({"make": {"field": 3}}))],
                "x: handlers have seen Some(3) instead of 7",
            ),
        ] {
            assert_eq!(unsettled(&objects, &workload()), [problem]);
        }
        let there = object(&done(), &json!({}));
        assert_eq!(
            unsettled(&[there], &Workload::default()),
            ["x is not deleted"]
        );
    }

    #[test]
    fn repeated_calls_are_reported() {
        let history = History::default();
        let record = r#"{"purpose":"update","success":true}"#;
        let annotations = json!({"kopf.zalando.org/make.item0": record});
        history.add("uid", "5", object(&annotations, &json!({})));
        history.add("uid", "6", object(&done(), &json!({})));
        let found = |handler, version, reason| {
            let begun = entry(Step::Begun, handler, version, reason);
            violations(&[begun], &history, &Workload::default()).len()
        };
        assert_eq!(found("make/item0", "5", "update"), 1, "success is recorded");
        assert_eq!(found("make/item0", "5", "create"), 0, "another cause");
        assert_eq!(found("make/item1", "5", "update"), 0, "another handler");
        assert_eq!(found("change", "6", "update"), 1, "nothing has changed");
        assert_eq!(found("unmake", "6", "delete"), 0, "not a change");
        assert_eq!(found("change", "7", "update"), 0, "unknown version");
    }

    #[test]
    fn overlapping_handlers_are_reported() {
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
            "sub-handler"
        );
        assert_eq!(
            steps(&[(Begun, "guard"), (Begun, "change")]),
            0,
            "background"
        );
        assert_eq!(steps(&[(Begun, "guard"), (Begun, "guard")]), 1, "twice");
    }

    #[test]
    fn missing_and_surplus_daemons_and_timers_are_reported() {
        let here = object(&json!({}), &json!({}));
        let begun = entry(Begun, "guard", "5", "");
        let ticked = entry(Succeeded, "tick", "5", "");
        let ended = entry(Succeeded, "guard", "6", "");
        let found = |entries: &[&Entry], objects: &[Value]| {
            let entries: Vec<Entry> = entries.iter().copied().cloned().collect();
            background_problems(&entries, 1, objects)
        };
        let objects = [here];
        assert!(found(&[&begun, &ticked], &objects).is_empty());
        assert!(found(&[&begun, &ticked, &ended], &[]).is_empty());
        assert_eq!(
            found(&[&ticked], &objects),
            ["x: the daemon is not running"]
        );
        assert_eq!(found(&[&begun], &objects), ["x: the timer was not called"]);
        assert_eq!(
            found(&[&begun], &[]),
            ["the daemon of the deleted object uid is running"]
        );
        assert_eq!(
            background_problems(&[begun, ticked], 2, &objects).len(),
            2,
            "another process"
        );
    }

    #[test]
    fn deletions_without_handlers_are_reported() {
        let mut workload = Workload::default();
        workload.deleted.push("uid".to_owned());
        let history = History::default();
        assert_eq!(violations(&[], &history, &workload).len(), 1);
        let unmade =
            [Step::Begun, Step::Succeeded].map(|step| entry(step, "unmake", "5", "delete"));
        assert!(violations(&unmade, &history, &workload).is_empty());
    }
}
