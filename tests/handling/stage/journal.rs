//! Recorded calls of handlers.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopf_core::cause::{EventType, Reason};
use kopf_core::sync::Mutex;
use kopf_engine::invocation::Call;
use serde_json::{Value, json};

/// A call of a handler.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: String,
    pub(crate) object: String,
    pub(crate) body: Value,
    pub(crate) retry: u32,
    pub(crate) started: Timestamp,
    pub(crate) runtime: Duration,
    /// Time of the call.
    pub(crate) at: Timestamp,
    pub(crate) event: Option<EventType>,
    pub(crate) reason: Option<Reason>,
    pub(crate) initial: bool,
    /// The names of the triggers of a reconcile handler.
    pub(crate) triggers: String,
    pub(crate) old: Value,
    pub(crate) new: Value,
    /// `[[op, [path…], old, new], …]`, as in the status.
    pub(crate) diff: Value,
    /// Number of accepted writes of the operator before the call.
    pub(crate) writes_before: usize,
}

impl Entry {
    /// Returns the id and the retry number.
    pub(crate) fn brief(&self) -> (&str, u32) {
        (&self.id, self.retry)
    }
}

/// All calls in order. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Journal(Arc<Mutex<Vec<Entry>>>);

impl Journal {
    pub(crate) fn note(&self, call: &Call, writes_before: usize) {
        let (body, change) = (call.body(), call.change());
        let review = call.admission().map(|admission| &admission.review);
        let value = |value: Option<&Arc<Value>>| value.map_or(Value::Null, |v| (**v).clone());
        let entry = Entry {
            id: call.id.to_string(),
            object: body.name().unwrap_or_default().to_owned(),
            body: body.value().clone(),
            retry: call.retry,
            started: call.started,
            runtime: call.runtime,
            at: call
                .started
                .saturating_add(call.runtime)
                .unwrap_or(call.started),
            event: call.event(),
            reason: change.map(|change| change.reason),
            initial: change.is_some_and(|change| change.initial),
            triggers: call.triggers.to_string(),
            old: value(match review {
                Some(review) => review.old.as_ref(),
                None => change.and_then(|change| change.old.as_ref()),
            }),
            new: value(match review {
                Some(review) => review.new.as_ref(),
                None => change.and_then(|change| change.new.as_ref()),
            }),
            diff: match review {
                Some(review) => json!(review.diff()),
                None => change.map_or(Value::Null, |change| json!(change.diff)),
            },
            writes_before,
        };
        self.0.lock().push(entry);
    }

    pub(crate) fn all(&self) -> Vec<Entry> {
        self.0.lock().clone()
    }

    /// Returns the calls of a handler.
    pub(crate) fn of(&self, id: &str) -> Vec<Entry> {
        let mut entries = self.all();
        entries.retain(|entry| entry.id == id);
        entries
    }

    pub(crate) fn count(&self, id: &str) -> usize {
        self.of(id).len()
    }

    /// Returns the only call of this handler. Panics if there are more or none.
    #[track_caller]
    pub(crate) fn only(&self, id: &str) -> Entry {
        let mut entries = self.of(id);
        assert_eq!(entries.len(), 1, "{id:?} was invoked {entries:#?}");
        entries.remove(0)
    }

    /// Returns the ids in the order of the calls.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.all().into_iter().map(|entry| entry.id).collect()
    }

    /// Returns the ids and the reasons, in order.
    pub(crate) fn reasons(&self) -> Vec<(String, &'static str)> {
        let reason = |entry: &Entry| entry.reason.map_or("", |reason| reason.as_str());
        self.all()
            .iter()
            .map(|entry| (entry.id.clone(), reason(entry)))
            .collect()
    }

    /// Returns the triggers of the calls of a reconcile handler, in order.
    pub(crate) fn triggers(&self, id: &str) -> Vec<String> {
        let entries = self.of(id).into_iter();
        entries.map(|entry| entry.triggers).collect()
    }

    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}
