//! The rows of the page, one per object, and their changes for all open pages.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

use jiff::Timestamp;
use kopf_core::body::Body;
use kopf_core::sync::Mutex;
use kopf_core::timestamp;
use serde_json::{Value, json};
use tokio::sync::broadcast;

use crate::events::{Event, EventOutcome};
use crate::state::State;

/// Upper bound for the number of rows. A row needs about half a kilobyte.
const ROWS: usize = 100_000;

/// The number of stored transitions per object.
const TRANSITIONS: usize = 20;

/// Queue length per page. A page that falls further behind receives all rows again.
const CHANGES: usize = 4_096;

/// One object.
#[derive(Clone, Debug)]
struct Row {
    kind: String,
    namespace: Option<String>,
    name: String,
    created: Option<String>,
    /// The state as shown by the object.
    state: State,
    history: VecDeque<Transition>,
}

/// A new state of an object.
#[derive(Clone, Debug)]
struct Transition {
    at: Timestamp,
    state: &'static str,
    details: String,
}

/// A change of the rows as JSON: an object for a new or changed row, a uid for a removed one.
pub(super) type Change = Value;

/// All rows.
#[derive(Debug)]
pub(super) struct Rows {
    content: Mutex<Content>,
    changes: broadcast::Sender<Change>,
}

#[derive(Debug, Default)]
struct Content {
    rows: HashMap<String, Row>,
    outcomes: HashMap<String, EventOutcome>,
    /// Errors of watching, by resource.
    problems: BTreeMap<String, String>,
    /// Resources with more objects than are shown.
    cut: BTreeSet<String>,
}

impl Default for Rows {
    fn default() -> Self {
        Self {
            content: Mutex::default(),
            changes: broadcast::Sender::new(CHANGES),
        }
    }
}

impl Rows {
    /// Adds or replaces the row of an object.
    pub(super) fn put(&self, kind: &str, body: &Body, state: State, now: Timestamp) {
        let Some(uid) = body.uid() else {
            return;
        };
        let mut content = self.content.lock();
        let history = match content.rows.remove(uid) {
            Some(row) => row.history,
            None if content.rows.len() >= ROWS => {
                content.cut.insert(kind.to_owned());
                return;
            }
            None => VecDeque::new(),
        };
        let mut row = Row {
            kind: kind.to_owned(),
            namespace: body.namespace().map(str::to_owned),
            name: body.name().unwrap_or_default().to_owned(),
            created: body.creation_timestamp().map(str::to_owned),
            state,
            history,
        };
        row.note(content.outcomes.get(uid), now);
        self.publish(row.to_value(uid, content.outcomes.get(uid)));
        content.rows.insert(uid.to_owned(), row);
    }

    /// Removes the row of an object.
    pub(super) fn remove(&self, uid: &str) {
        let mut content = self.content.lock();
        content.outcomes.remove(uid);
        if content.rows.remove(uid).is_some() {
            self.publish(Value::from(uid));
        }
    }

    /// Removes all rows.
    pub(super) fn clear(&self) {
        let mut content = self.content.lock();
        for (uid, _) in content.rows.drain() {
            self.publish(Value::from(uid));
        }
        content.cut.clear();
        content.problems.clear();
    }

    /// Removes the rows of a kind that were not in its complete listing.
    pub(super) fn retain(&self, kind: &str, listed: &HashSet<String>) {
        let mut content = self.content.lock();
        content.rows.retain(|uid, row| {
            let is_kept = row.kind != kind || listed.contains(uid);
            if !is_kept {
                self.publish(Value::from(uid.as_str()));
            }
            is_kept
        });
    }

    /// Applies a k8s-event, which can show that the last handling has failed.
    pub(super) fn note(&self, event: &Event, now: Timestamp) {
        let mut content = self.content.lock();
        let Content { rows, outcomes, .. } = &mut *content;
        if outcomes.len() >= ROWS && !outcomes.contains_key(&event.uid) {
            return;
        }
        let outcome = outcomes.entry(event.uid.clone()).or_default();
        outcome.add(event);
        if let Some(row) = rows.get_mut(&event.uid) {
            row.note(Some(outcome), now);
            self.publish(row.to_value(&event.uid, Some(outcome)));
        }
    }

    /// Stores an error of watching.
    pub(super) fn fail(&self, kind: &str, problem: String) {
        self.content
            .lock()
            .problems
            .insert(kind.to_owned(), problem);
    }

    /// Removes the error of watching: the server responds again.
    pub(super) fn recovered(&self, kind: &str) {
        self.content.lock().problems.remove(kind);
    }

    /// Returns all rows with a receiver of the changes that follow.
    pub(super) fn subscribe(&self) -> (Vec<Value>, broadcast::Receiver<Change>) {
        let content = self.content.lock();
        let rows = content.rows.iter();
        let rows = rows.map(|(uid, row)| row.to_value(uid, content.outcomes.get(uid)));
        (rows.collect(), self.changes.subscribe())
    }

    /// Returns the transitions of an object since the start, the oldest first.
    pub(super) fn history(&self, uid: &str) -> Vec<Value> {
        let content = self.content.lock();
        let history = content.rows.get(uid).map(|row| row.history.iter());
        let history = history.into_iter().flatten().map(|one| {
            json!({"at": timestamp::format(one.at), "state": one.state, "details": one.details})
        });
        history.collect()
    }

    /// Returns the errors of watching, by resource.
    pub(super) fn problems(&self) -> Value {
        let content = self.content.lock();
        let mut problems = content.problems.clone();
        for kind in &content.cut {
            let problem = format!("only {ROWS} objects are shown: select a namespace (-n)");
            problems.entry(kind.clone()).or_insert(problem);
        }
        json!(problems)
    }

    /// Sends a change to all open pages. The caller holds the lock of the rows, so that no page
    /// misses it.
    fn publish(&self, change: Change) {
        // Fails only if no page is open.
        let _ = self.changes.send(change);
    }
}

impl Row {
    fn shown(&self, outcome: Option<&EventOutcome>) -> State {
        match &self.state {
            State::Settled => {
                let failure = outcome.and_then(EventOutcome::failure);
                failure.unwrap_or(State::Settled)
            }
            state => state.clone(),
        }
    }

    fn note(&mut self, outcome: Option<&EventOutcome>, now: Timestamp) {
        let state = self.shown(outcome);
        let transition = Transition {
            at: now,
            state: state.name(),
            details: state.details(now),
        };
        let is_new = self.history.back().is_none_or(|last| {
            last.state != transition.state || last.details != transition.details
        });
        if is_new {
            if self.history.len() >= TRANSITIONS {
                self.history.pop_front();
            }
            self.history.push_back(transition);
        }
    }

    fn to_value(&self, uid: &str, outcome: Option<&EventOutcome>) -> Value {
        json!({
            "uid": uid,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "created": self.created,
            "state": self.shown(outcome).to_value(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        timestamp::parse("2026-01-02T03:04:05Z").unwrap()
    }

    fn body(uid: &str) -> Body {
        Body::new(json!({"metadata": {"name": "x", "namespace": "ns", "uid": uid}}))
    }

    #[test]
    fn subscribers_get_all_rows_and_then_the_changes() {
        let all = Rows::default();
        all.put("things", &body("1"), State::NotSeen, now());
        let (rows, mut changes) = all.subscribe();
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0]["state"]["name"], "not seen");
        all.put("things", &body("1"), State::Settled, now());
        all.put("others", &body("2"), State::Settled, now());
        all.retain("things", &HashSet::new());
        all.remove("2");
        all.remove("2");
        let mut received = Vec::new();
        while let Ok(change) = changes.try_recv() {
            received.push(change);
        }
        assert_eq!(received[0]["state"]["name"], "settled");
        assert_eq!(received[1]["uid"], "2");
        assert_eq!(received[2..], [json!("1"), json!("2")]);
        assert!(all.subscribe().0.is_empty());
    }

    #[test]
    fn events_turn_settled_objects_into_failed_ones() {
        let all = Rows::default();
        all.put("things", &body("1"), State::Settled, now());
        let event = Event::read(&json!({
            "type": "Error", "message": "Handler 'fn' failed permanently: no", "lastTimestamp":
            "2026-01-02T03:04:05Z", "involvedObject": {"uid": "1"},
        }));
        all.note(&event.unwrap(), now());
        let (rows, _) = all.subscribe();
        assert_eq!(rows[0]["state"]["name"], "failed");
        assert_eq!(rows[0]["state"]["handler"], "fn");
        let states: Vec<_> = all
            .history("1")
            .iter()
            .map(|one| one["state"].clone())
            .collect();
        assert_eq!(states, ["settled", "failed"]);
    }

    #[test]
    fn errors_are_shown_until_the_server_responds() {
        let all = Rows::default();
        all.fail("things", "forbidden".to_owned());
        all.fail("events", "gone".to_owned());
        all.recovered("things");
        assert_eq!(all.problems(), json!({"events": "gone"}));
        all.content.lock().cut.insert("things".to_owned());
        all.recovered("events");
        all.retain("things", &HashSet::new());
        assert!(all.problems()["things"].is_string());
    }

    #[test]
    fn the_history_is_bounded() {
        let all = Rows::default();
        for fields in 0..100 {
            all.put("things", &body("1"), State::Changed { fields }, now());
        }
        assert_eq!(all.history("1").len(), TRANSITIONS);
        assert_eq!(all.history("absent").len(), 0);
    }
}
