//! The state of one object, with the data from which it is derived.

use std::sync::Arc;

use jiff::Timestamp;
use kopf_core::body::Body;
use kopf_core::diff::Diff;
use kopf_core::keys::MARKER;
use kopf_core::object::retriggering::{self, Request};
use kopf_core::secrets::redact_diff;
use kopf_core::storage::StorageError;
use serde_json::Value;

use crate::records::{HandlerProgress, ObjectProgress};
use crate::state::{Finalizer, Source, State};
use crate::storages::{Storages, is_secret, own_annotations};

/// One object with its state.
#[derive(Clone, Debug)]
pub struct Handled {
    /// The state.
    pub state: State,
    /// The progress records.
    pub progress: ObjectProgress,
    /// The finalizers.
    pub finalizers: Vec<Finalizer>,
    /// The changes since the last handling; empty without a diff-base.
    pub diff: Diff,
    /// The object has a diff-base.
    pub has_base: bool,
}

impl Handled {
    /// Derives the state of an object. If several operators have left their state on it, that of the
    /// most urgent one is returned.
    pub fn assess(body: &Body, storages: &Storages, now: Timestamp) -> Self {
        let operators = storages.recognised(body);
        let assessed = operators.iter().map(|one| Self::assess_one(body, one, now));
        let worst = assessed.reduce(|worst, next| {
            if next.state.urgency() > worst.state.urgency() {
                next
            } else {
                worst
            }
        });
        worst.unwrap_or_else(|| Self::assess_one(body, storages, now))
    }

    /// Derives the state of an object for one operator.
    fn assess_one(body: &Body, storages: &Storages, now: Timestamp) -> Self {
        let progress = ObjectProgress::of(storages, body);
        let finalizers: Vec<Finalizer> = body
            .finalizers()
            .map(|name| {
                if storages.owns_finalizer(name) {
                    Finalizer::Operator(name.to_owned())
                } else {
                    Finalizer::Other(name.to_owned())
                }
            })
            .collect();
        let compared = compare(body, storages);
        let state = match &compared {
            _ if body.is_deleting() => deleting(&progress, &finalizers, now),
            Err(error) => State::Unreadable {
                problem: error.to_string(),
            },
            Ok(None) if is_marked(body, storages, &finalizers) && progress.records.is_empty() => {
                handling(&progress)
            }
            Ok(compared) => living(&progress, compared.as_ref(), now),
        };
        let (diff, has_base) = match compared {
            Ok(Some(diff)) => (diff, true),
            Ok(None) | Err(_) => (Diff::default(), false),
        };
        Self {
            state,
            progress,
            finalizers,
            diff,
            has_base,
        }
    }
}

/// Compares an object with its diff-base; `None` if there is no diff-base.
fn compare(body: &Body, storages: &Storages) -> Result<Option<Diff>, StorageError> {
    let Some(base) = storages.base(body)? else {
        return Ok(None);
    };
    let essence = storages.essence(body, Some(&base))?;
    let diff = differences(base, essence);
    Ok(Some(if is_secret(body) {
        redact_diff(&diff)
    } else {
        diff
    }))
}

fn differences(old: Value, new: Value) -> Diff {
    Diff::between(Some(Arc::new(old)), Some(Arc::new(new)))
}

fn deleting(progress: &ObjectProgress, finalizers: &[Finalizer], now: Timestamp) -> State {
    let is_own = |finalizer: &Finalizer| matches!(finalizer, Finalizer::Operator(_));
    if finalizers.is_empty() {
        return State::Deleting;
    }
    let progress = unfinished_state(progress, now).filter(|_| finalizers.iter().any(is_own));
    progress.unwrap_or_else(|| State::Blocked {
        finalizers: finalizers.to_vec(),
    })
}

/// Returns `true` if an operator has left a finalizer or annotations on the object, other than a
/// request to it.
fn is_marked(body: &Body, storages: &Storages, finalizers: &[Finalizer]) -> bool {
    let mut own = own_annotations(storages, body);
    let is_own = |finalizer: &Finalizer| matches!(finalizer, Finalizer::Operator(_));
    let is_requested = Request::is_stored(&storages.naming, body);
    finalizers.iter().any(is_own)
        || own.any(|own| !(is_requested && [retriggering::KEY, MARKER].contains(&own.name)))
}

fn living(progress: &ObjectProgress, diff: Option<&Diff>, now: Timestamp) -> State {
    if let Some(state) = unfinished_state(progress, now) {
        return state;
    }
    if let Some(failed) = failed(progress) {
        return failed;
    }
    match diff {
        Some(diff) if diff.is_empty() => State::Settled,
        Some(diff) => State::Changed { fields: diff.len() },
        None if !progress.records.is_empty() => handling(progress),
        None => State::NotSeen,
    }
}

/// Returns the state of unfinished handlers; `None` if there are none.
fn unfinished_state(progress: &ObjectProgress, now: Timestamp) -> Option<State> {
    let unfinished: Vec<&HandlerProgress> = progress
        .records
        .iter()
        .filter(|handler| !handler.is_finished())
        .collect();
    if unfinished.is_empty() {
        return None;
    }
    // Parents that wait for their sub-handlers are retried as well, but are not the cause.
    let is_parent = |one: &HandlerProgress| {
        unfinished
            .iter()
            .any(|sub| sub.parent.as_ref() == Some(&one.id))
    };
    let leaves = unfinished.iter().filter(|handler| !is_parent(handler));
    let retried = leaves.filter(|handler| handler.record.retries > 0);
    let next = retried.min_by_key(|handler| handler.record.delayed.unwrap_or(now));
    Some(match next {
        Some(handler) => State::Retrying {
            handler: handler.id.clone(),
            attempt: handler.record.retries.saturating_add(1),
            at: handler.record.delayed.unwrap_or(now),
            message: handler.message().map(str::to_owned),
        },
        None => handling(progress),
    })
}

fn handling(progress: &ObjectProgress) -> State {
    let records = &progress.records;
    State::Handling {
        purpose: records
            .iter()
            .find_map(|handler| handler.record.purpose.clone()),
        finished: records
            .iter()
            .filter(|handler| handler.is_finished())
            .count(),
        known: records.len(),
    }
}

fn failed(progress: &ObjectProgress) -> Option<State> {
    let mut failed = progress
        .records
        .iter()
        .filter(|handler| handler.record.failure);
    // Parents fail because of their sub-handlers.
    let handler = failed.clone().find(|handler| handler.parent.is_some());
    let handler = handler.or_else(|| failed.next())?;
    Some(State::Failed {
        handler: Some(handler.id.clone()),
        message: handler.message().map(str::to_owned),
        source: Source::Record,
    })
}

#[cfg(test)]
mod tests {
    use kopf_core::timestamp;
    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-01-02T03:04:05Z";
    const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

    fn assess(body: Value) -> Handled {
        let now = timestamp::parse(NOW).unwrap();
        Handled::assess(&Body::new(body), &Storages::default(), now)
    }

    fn object(annotations: &Value, finalizers: &Value, deleting: bool) -> Value {
        let mut object = json!({
            "metadata": {"name": "x", "annotations": annotations, "finalizers": finalizers},
            "spec": {"field": 1},
        });
        if deleting {
            object["metadata"]["deletionTimestamp"] = json!(NOW);
        }
        object
    }

    fn name(annotations: &Value, finalizers: &Value, deleting: bool) -> &'static str {
        assess(object(annotations, finalizers, deleting))
            .state
            .name()
    }

    const BASE: &str = "kopf.zalando.org/last-handled-configuration";
    const FN: &str = "kopf.zalando.org/fn";

    #[test]
    fn states_of_living_objects() {
        let (current, old) = (r#"{"spec":{"field":1}}"#, r#"{"spec":{"field":2,"x":1}}"#);
        let (none, own) = (json!(null), json!([FINALIZER]));
        assert_eq!(name(&json!({}), &none, false), "not seen");
        assert_eq!(name(&json!(null), &json!(["other/x"]), false), "not seen");
        assert_eq!(name(&json!({}), &own, false), "handling");
        assert_eq!(name(&json!({BASE: current}), &own, false), "settled");
        assert_eq!(name(&json!({BASE: old}), &own, false), "changed");
        assert_eq!(name(&json!({BASE: "{"}), &own, false), "unreadable");
        assert_eq!(name(&json!({BASE: "[]"}), &own, false), "unreadable");
        let handled = assess(object(&json!({BASE: old}), &own, false));
        assert_eq!(handled.state, State::Changed { fields: 2 });
        assert!(handled.has_base);

        let waiting = r#"{"retries":0,"success":false,"failure":false,"purpose":"create"}"#;
        let retried = r#"{"retries":2,"delayed":"2026-01-02T03:04:17Z","message":"no"}"#;
        let failed = r#"{"retries":1,"failure":true,"message":"bad"}"#;
        assert_eq!(name(&json!({FN: waiting}), &none, false), "handling");
        assert_eq!(
            name(&json!({FN: retried, BASE: current}), &none, false),
            "retrying"
        );
        assert_eq!(name(&json!({FN: failed}), &none, false), "failed");
        let both = json!({FN: failed, "kopf.zalando.org/other": retried});
        assert_eq!(name(&both, &none, false), "retrying");
    }

    #[test]
    fn states_of_deleted_objects() {
        let retried = r#"{"retries":2,"delayed":"2026-01-02T03:04:17Z","purpose":"delete"}"#;
        assert_eq!(name(&json!({}), &json!([]), true), "deleting");
        assert_eq!(name(&json!({}), &json!(["other/x"]), true), "blocked");
        assert_eq!(name(&json!({}), &json!([FINALIZER]), true), "blocked");
        assert_eq!(
            name(&json!({FN: retried}), &json!([FINALIZER]), true),
            "retrying"
        );
        assert_eq!(
            name(&json!({FN: retried}), &json!(["other/x"]), true),
            "blocked"
        );
        let handled = assess(object(&json!({}), &json!([FINALIZER, "other/x"]), true));
        let State::Blocked { finalizers } = handled.state else {
            panic!("{:?}", handled.state);
        };
        assert!(matches!(
            &finalizers[..],
            [Finalizer::Operator(_), Finalizer::Other(_)]
        ));
    }

    /// Returns all objects of a recording of the original.
    fn recorded(case: &str) -> Vec<Value> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");
        let text = std::fs::read_to_string(format!("{folder}/{case}/objects.json")).unwrap();
        let objects: Vec<Value> = serde_json::from_str(&text).unwrap();
        objects
            .into_iter()
            .map(|entry| entry["object"].clone())
            .collect()
    }

    #[test]
    fn recorded_objects_of_the_original() {
        let objects = recorded("s07-subhandlers");
        let now = timestamp::parse("2026-11-15T00:38:52.5Z").unwrap();
        let storages = Storages::default();
        let assess = |object: &Value| Handled::assess(&Body::new(object.clone()), &storages, now);
        let State::Retrying {
            handler,
            attempt,
            message,
            ..
        } = assess(&objects[0]).state
        else {
            panic!("{:?}", assess(&objects[0]).state);
        };
        assert_eq!((handler.as_str(), attempt), ("make/b", 2));
        assert_eq!(message.as_deref(), Some("b later"));
        assert_eq!(assess(&objects[1]).state, State::Settled);
    }

    #[test]
    fn all_recorded_objects_are_readable() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");
        let mut count = 0;
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if !entry.path().join("objects.json").exists() {
                continue;
            }
            let case = entry.file_name().into_string().unwrap();
            for object in recorded(&case) {
                // Deleted objects are recorded as null.
                if object.is_object() {
                    let state = assess(object.clone()).state;
                    let is_readable = !matches!(state, State::Unreadable { .. });
                    assert!(is_readable, "{case}: {state:?}");
                    count += 1;
                }
            }
        }
        assert!(count > 10, "{count}");
    }
}
