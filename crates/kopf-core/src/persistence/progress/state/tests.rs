//! Tests of loading, storing and purging records.

use std::collections::BTreeMap;
use std::sync::Mutex;

use serde_json::{Value, json};

use super::*;
use crate::handler::{ErrorsMode, Retrying};
use crate::outcome::{Attempt, HandlerError, decide};
use crate::progress::SmartProgressStorage;

/// A storage that records its calls.
#[derive(Debug, Default)]
struct Recorder {
    records: BTreeMap<String, ProgressRecord>,
    calls: Mutex<Vec<String>>,
}

impl Recorder {
    fn with(records: &[(&str, ProgressRecord)]) -> Self {
        let records = records
            .iter()
            .map(|(id, record)| ((*id).to_owned(), record.clone()));
        Self {
            records: records.collect(),
            calls: Mutex::default(),
        }
    }

    fn call(&self, verb: &str, key: &str) {
        self.calls
            .lock()
            .unwrap()
            .push(format!("{verb} {key}").trim().to_owned());
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }
}

impl ProgressStorage for Recorder {
    fn fetch(&self, key: &str, _: &Body) -> Result<Option<ProgressRecord>, StorageError> {
        Ok(self.records.get(key).cloned())
    }

    fn store(
        &self,
        key: &str,
        _: &ProgressRecord,
        _: &Body,
        _: &mut Patch,
    ) -> Result<(), StorageError> {
        self.call("store", key);
        Ok(())
    }

    fn purge(&self, key: &str, _: &Body, _: &mut Patch) -> Result<(), StorageError> {
        self.call("purge", key);
        Ok(())
    }

    fn touch(&self, _: &Body, _: &mut Patch, _: Option<&str>) -> Result<(), StorageError> {
        Ok(())
    }

    fn clear(&self, _: &mut Value) -> Result<(), StorageError> {
        Ok(())
    }

    fn flush(&self) -> Result<(), StorageError> {
        self.call("flush", "");
        Ok(())
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn record(purpose: &str) -> ProgressRecord {
    ProgressRecord {
        started: Some(at(-100)),
        purpose: Some(purpose.to_owned()),
        ..ProgressRecord::default()
    }
}

fn ids(names: &[&str]) -> Vec<HandlerId> {
    names.iter().map(|name| HandlerId::from(*name)).collect()
}

fn body() -> Body {
    Body::new(json!({"metadata": {"name": "x"}}))
}

fn loaded(storage: &dyn ProgressStorage, owned: &[&str]) -> State {
    State::load(storage, &body(), ids(owned).iter()).unwrap()
}

fn stored(state: &State, storage: &Recorder) -> Vec<String> {
    state
        .store(storage, &body(), &mut Patch::default())
        .unwrap();
    storage.taken()
}

fn purged(state: &State, storage: &Recorder, owned: &[&str]) -> Vec<String> {
    let owned = ids(owned);
    state
        .purge(storage, &body(), &mut Patch::default(), owned.iter())
        .unwrap();
    storage.taken()
}

fn outcome(result: Result<Option<Value>, HandlerError>) -> Outcome {
    let attempt = Attempt {
        label: "Handler 'fn'",
        retrying: &Retrying::default(),
        default_errors: ErrorsMode::Temporary,
        default_backoff: Duration::from_secs(60),
        retries: 0,
        runtime: Duration::ZERO,
    };
    decide(&attempt, Duration::ZERO, result)
}

fn retry(delay: Option<u64>) -> Outcome {
    outcome(Err(HandlerError::temporary(
        "not yet",
        delay.map(Duration::from_secs),
    )))
}

#[test]
fn new_records_start_now_for_the_reason() {
    let storage = Recorder::default();
    let mut state = loaded(&storage, &["a", "b"]);
    state.activate(ids(&["a"]).iter(), Reason::Create, at(0));
    let expected = ProgressRecord {
        started: Some(at(0)),
        purpose: Some("create".into()),
        ..ProgressRecord::default()
    };
    assert_eq!(state.record("a"), Some(&expected));
    assert_eq!(state.record("b"), None);
    assert_eq!(state.attempt("a"), Some((0, at(0))));
    assert!(state.is_awake("a", at(0)));
    // Written even if it is not run.
    assert_eq!(stored(&state, &storage), ["store a", "flush"]);
}

#[test]
fn stored_records_continue() {
    let old = ProgressRecord {
        retries: 3,
        ..record("create")
    };
    let storage = Recorder::with(&[("a", old.clone())]);
    let mut state = loaded(&storage, &["a"]);
    state.activate(ids(&["a"]).iter(), Reason::Create, at(0));
    assert_eq!(state.record("a"), Some(&old));
    assert_eq!(state.attempt("a"), Some((3, at(-100))));
    assert_eq!(stored(&state, &storage), ["flush"]);
}

#[test]
fn records_of_unselected_handlers_are_passive() {
    let storage = Recorder::with(&[("a", record("create")), ("b", record("create"))]);
    let mut state = loaded(&storage, &["a", "b"]);
    state.activate(ids(&["a"]).iter(), Reason::Create, at(0));
    assert!(!state.is_awake("b", at(0)));
    assert_eq!(state.attempt("b"), None);
    assert_eq!(state.delays(at(0)).len(), 1);
    state.apply("a", &outcome(Ok(None)), at(1));
    assert!(state.is_done());
    assert_eq!(stored(&state, &storage), ["store a", "flush"]);
    assert_eq!(
        purged(&state, &storage, &["a", "b"]),
        ["purge a", "purge b", "flush"]
    );
}

#[test]
fn records_without_a_start_start_now() {
    let storage = Recorder::with(&[("a", ProgressRecord::default())]);
    let mut state = loaded(&storage, &["a"]);
    state.activate(ids(&["a"]).iter(), Reason::Create, at(0));
    assert_eq!(state.attempt("a"), Some((0, at(0))));
    assert_eq!(stored(&state, &storage), ["store a", "flush"]);
}

#[test]
#[allow(clippy::too_many_lines, reason = "a table of cases")]
fn outcomes_change_records() {
    let storage = Recorder::default();
    let mut state = loaded(&storage, &[]);
    state.activate(
        ids(&["ok", "bad", "later", "soon", "kids"]).iter(),
        Reason::Update,
        at(0),
    );
    state.apply("ok", &outcome(Ok(Some(json!(1)))), at(5));
    state.apply(
        "bad",
        &outcome(Err(HandlerError::permanent("the end"))),
        at(6),
    );
    state.apply("later", &retry(Some(10)), at(7));
    state.apply("soon", &retry(None), at(8));
    let mut unfinished = outcome(Err(HandlerError::Unfinished {
        delay: Some(Duration::ZERO),
    }));
    unfinished.subrefs = ids(&["kids/b", "kids/a"]).into_iter().collect();
    state.apply("kids", &unfinished, at(9));
    state.apply("unknown", &retry(None), at(9));

    let base = ProgressRecord {
        started: Some(at(0)),
        purpose: Some("update".into()),
        retries: 1,
        ..ProgressRecord::default()
    };
    let expected = [
        (
            "ok",
            ProgressRecord {
                stopped: Some(at(5)),
                success: true,
                ..base.clone()
            },
        ),
        (
            "bad",
            ProgressRecord {
                stopped: Some(at(6)),
                failure: true,
                message: Some("the end".into()),
                ..base.clone()
            },
        ),
        (
            "later",
            ProgressRecord {
                delayed: Some(at(17)),
                message: Some("not yet".into()),
                ..base.clone()
            },
        ),
        (
            "soon",
            ProgressRecord {
                message: Some("not yet".into()),
                ..base.clone()
            },
        ),
        (
            "kids",
            ProgressRecord {
                delayed: Some(at(9)),
                message: Some("None".into()),
                subrefs: vec!["kids/a".into(), "kids/b".into()],
                ..base
            },
        ),
    ];
    for (id, record) in &expected {
        assert_eq!(state.record(id), Some(record), "{id}");
    }
    assert_eq!(state.record("unknown"), None);
    assert_eq!(
        state.counts(),
        Counts {
            succeeded: 1,
            failed: 1
        }
    );
    assert!(!state.is_done());
    let awake: Vec<&str> = ["ok", "bad", "later", "soon", "kids"]
        .into_iter()
        .filter(|id| state.is_awake(id, at(9)))
        .collect();
    assert_eq!(awake, ["soon", "kids"]);
    assert!(state.is_awake("later", at(17)));
    assert_eq!(state.delays(at(9)), [8, 0, 0].map(Duration::from_secs));
    assert_eq!(state.delays(at(20)), [0, 0, 0].map(Duration::from_secs));
}

#[test]
fn success_after_retries_clears_the_message() {
    let storage = Recorder::default();
    let mut state = loaded(&storage, &[]);
    state.activate(ids(&["a"]).iter(), Reason::Create, at(0));
    let mut first = retry(Some(10));
    first.subrefs = ids(&["a/2"]).into_iter().collect();
    state.apply("a", &first, at(0));
    let mut second = outcome(Ok(None));
    second.subrefs = ids(&["a/1"]).into_iter().collect();
    state.apply("a", &second, at(10));
    let record = state.record("a").unwrap();
    assert_eq!(
        (record.retries, record.delayed, record.message.clone()),
        (2, None, None)
    );
    assert_eq!(record.stopped, Some(at(10)));
    assert_eq!(record.subrefs, ["a/1", "a/2"]);
    assert!(state.is_done());
}

#[test]
fn extreme_delays_saturate() {
    let mut state = loaded(&Recorder::default(), &[]);
    state.activate(ids(&["a"]).iter(), Reason::Create, at(0));
    let forever = HandlerError::temporary("never", Some(Duration::MAX));
    state.apply("a", &outcome(Err(forever)), at(0));
    assert_eq!(state.record("a").unwrap().delayed, Some(Timestamp::MAX));
    assert!(state.delays(at(0))[0] > Duration::from_secs(1_000_000_000));
}

#[test]
fn state_without_handlers_is_done() {
    let storage = Recorder::with(&[("a", record("create"))]);
    let mut state = loaded(&storage, &["a"]);
    state.activate(ids(&[]).iter(), Reason::Update, at(0));
    assert!(state.is_done());
    assert!(state.delays(at(0)).is_empty());
    assert_eq!(purged(&state, &storage, &["a"]), ["purge a", "flush"]);
}

#[test]
fn records_of_other_reasons_are_extras_counted_per_reason() {
    let succeeded = ProgressRecord {
        success: true,
        ..record("create")
    };
    let failed = ProgressRecord {
        failure: true,
        ..record("create")
    };
    let unpurposed = ProgressRecord {
        purpose: None,
        ..record("")
    };
    let names = ["a", "b", "c", "d", "e", "f"];
    let storage = Recorder::with(&[
        ("a", succeeded),
        ("b", failed),
        ("c", record("create")),
        ("d", record("update")),
        ("e", record("resume")),
        ("f", unpurposed),
    ]);
    let mut state = loaded(&storage, &names);
    state.activate(ids(&["a", "d"]).iter(), Reason::Update, at(0));
    let extra = |purpose: &str, succeeded, failed, left| Extra {
        purpose: purpose.to_owned(),
        succeeded,
        failed,
        left,
    };
    assert_eq!(
        state.extras(Reason::Update),
        [extra("create", 1, 1, 1), extra("resume", 0, 0, 1)]
    );
    assert!(state.has_extras(Reason::Update));
}

#[test]
fn repurposed_records_keep_their_progress() {
    let old = ProgressRecord {
        success: true,
        retries: 2,
        stopped: Some(at(-50)),
        ..record("create")
    };
    let storage = Recorder::with(&[("a", old.clone()), ("b", record("create"))]);
    let mut state = loaded(&storage, &["a", "b"]);
    state.activate(ids(&["a", "b", "c"]).iter(), Reason::Update, at(0));
    state.repurpose(Reason::Update);
    let expected = ProgressRecord {
        purpose: Some("update".into()),
        ..old
    };
    assert_eq!(state.record("a"), Some(&expected));
    assert!(!state.is_awake("a", at(0)) && state.is_awake("b", at(0)));
    assert!(!state.has_extras(Reason::Update));
    assert_eq!(
        stored(&state, &storage),
        ["store a", "store b", "store c", "flush"]
    );
    assert_eq!(
        state.counts(),
        Counts {
            succeeded: 1,
            failed: 0
        }
    );
}

/// Progress of a deletion that superseded a creation is kept when the rest of the creation is
/// removed.
#[test]
fn superseded_records_are_removed_without_losing_the_current_ones() {
    let parent = ProgressRecord {
        subrefs: vec!["parent/x".into()],
        ..record("create")
    };
    let current = ProgressRecord {
        retries: 2,
        delayed: Some(at(50)),
        subrefs: vec!["current/x".into()],
        ..record("delete")
    };
    let storage = Recorder::with(&[("parent", parent), ("current", current)]);
    let owned = ["parent", "current", "idle"];
    let mut state = loaded(&storage, &owned);
    state.activate(ids(&["current"]).iter(), Reason::Delete, at(0));
    state.repurpose(Reason::Delete);
    assert!(state.has_extras(Reason::Delete));
    let expected = ["purge parent", "purge idle", "purge parent/x", "flush"];
    assert_eq!(purged(&state, &storage, &owned), expected);
    assert_eq!(stored(&state, &storage), ["flush"]);
    // At the end, everything is purged.
    state.apply("current", &outcome(Ok(None)), at(50));
    let all =
        ["parent", "current", "idle", "parent/x", "current/x"].map(|id| format!("purge {id}"));
    assert_eq!(purged(&state, &storage, &owned)[..5], all);
}

#[test]
fn records_that_are_counted_are_those_of_the_reason_or_of_none() {
    let done = |purpose: Option<&str>| ProgressRecord {
        purpose: purpose.map(str::to_owned),
        success: true,
        ..ProgressRecord::default()
    };
    let storage = Recorder::with(&[
        ("mine", done(Some("update"))),
        ("any", done(None)),
        ("other", done(Some("create"))),
    ]);
    let mut state = loaded(&storage, &["mine", "any", "other"]);
    state.activate(ids(&["mine"]).iter(), Reason::Update, at(0));
    assert_eq!(
        state.counts(),
        Counts {
            succeeded: 2,
            failed: 0
        }
    );
}

#[test]
fn ids_are_loaded_and_activated_once() {
    let storage = Recorder::with(&[("a", record("create"))]);
    let mut state = loaded(&storage, &["a", "a"]);
    state.activate(ids(&["a", "b", "b"]).iter(), Reason::Create, at(0));
    let known: Vec<&str> = state.ids().map(|id| &**id).collect();
    assert_eq!(known, ["a", "b"]);
}

/// The recorded progress of two handlers with the default storage: records that are stored and
/// purged in one cycle are never sent.
#[test]
fn annotations_of_finished_handlers_never_reach_the_server() {
    let storage = SmartProgressStorage::default();
    let owned = ids(&["first", "second"]);
    let mut patch = Patch::default();
    let mut state = State::load(&storage, &body(), owned.iter()).unwrap();
    state.activate(owned.iter(), Reason::Create, at(0));
    state.apply("first", &outcome(Ok(None)), at(1));
    state.store(&storage, &body(), &mut patch).unwrap();
    let annotations = patch.merge["metadata"]["annotations"].clone();
    assert_eq!(
        annotations["kopf.zalando.org/second"],
        "{\"started\":\"2027-01-15T08:00:00.000000+00:00\",\"purpose\":\"create\",\
         \"retries\":0,\"success\":false,\"failure\":false}"
    );

    let body = Body::new(json!({"metadata": {"annotations": annotations}}));
    let mut patch = Patch::default();
    let mut state = State::load(&storage, &body, owned.iter()).unwrap();
    state.activate(owned.iter(), Reason::Create, at(2));
    assert!(!state.is_awake("first", at(2)) && state.is_awake("second", at(2)));
    state.apply("second", &outcome(Ok(None)), at(3));
    state.store(&storage, &body, &mut patch).unwrap();
    assert!(state.is_done());
    state
        .purge(&storage, &body, &mut patch, owned.iter())
        .unwrap();
    let expected = json!({"metadata": {"annotations": {
        "kopf.zalando.org/first": null,
        "kopf.zalando.org/second": null,
    }}});
    assert_eq!(Value::Object(patch.merge), expected);

    let mut patch = Patch::default();
    let fresh = Body::new(json!({}));
    let mut state = State::load(&storage, &fresh, owned.iter()).unwrap();
    state.activate(owned.iter(), Reason::Create, at(0));
    state.apply("first", &outcome(Ok(None)), at(1));
    state.apply("second", &outcome(Ok(None)), at(1));
    state.store(&storage, &fresh, &mut patch).unwrap();
    state
        .purge(&storage, &fresh, &mut patch, owned.iter())
        .unwrap();
    assert!(patch.is_empty());
}

#[test]
fn woken_handlers_are_due_with_their_sub_handlers() {
    let storage = Recorder::with(&[]);
    let all = ["a", "a/sub", "ab", "done"];
    let mut state = loaded(&storage, &all);
    state.activate(ids(&all).iter(), Reason::Create, at(0));
    let delayed = || {
        outcome(Err(HandlerError::temporary(
            "x",
            Some(Duration::from_secs(60)),
        )))
    };
    for id in ["a", "a/sub", "ab"] {
        state.apply(id, &delayed(), at(0));
    }
    state.apply("done", &outcome(Ok(None)), at(0));
    state.wake(&ids(&["a", "done"]));
    let awake: Vec<&str> = all
        .into_iter()
        .filter(|id| state.is_awake(id, at(1)))
        .collect();
    assert_eq!(awake, ["a", "a/sub"]);
    assert_eq!(
        state.record("a").unwrap().retries,
        1,
        "attempts are counted on"
    );
}

#[test]
fn finished_and_interrupted_records_are_carried_over() {
    let finished = |subrefs: &[&str]| ProgressRecord {
        retries: 1,
        success: true,
        subrefs: subrefs.iter().map(|id| (*id).to_owned()).collect(),
        ..record("create")
    };
    let interrupted = ProgressRecord {
        retries: 1,
        ..record("create")
    };
    let storage = Recorder::with(&[
        ("current", finished(&["current/sub"])),
        ("outdated", finished(&[])),
        ("interrupted", interrupted),
        ("untried", record("create")),
    ]);
    let state = loaded(&storage, &["current", "outdated", "interrupted", "untried"]);
    storage.taken();
    let outdated = BTreeSet::from(["outdated", "interrupted"]);
    let mut patch = Patch::default();
    let carried = state.carry_over(&storage, &body(), &mut patch, &outdated);
    let carried = carried.unwrap();
    assert_eq!(
        carried.kept.into_iter().collect::<Vec<_>>(),
        ["current", "current/sub"]
    );
    assert_eq!(
        carried.interrupted.into_iter().collect::<Vec<_>>(),
        ["interrupted"]
    );
    let mut calls = storage.taken();
    calls.sort();
    assert_eq!(
        calls,
        [
            "flush",
            "purge outdated",
            "purge untried",
            "store current",
            "store interrupted"
        ]
    );
}
