//! K8s-events of objects, for failures whose progress records are purged.
//!
//! When all handlers are finished, all records are purged, including those of failed handlers. The
//! last events of the object show the failure until the API server drops them (after an hour by
//! default).

use jiff::Timestamp;
use kopf_core::timestamp;
use serde_json::Value;

use crate::state::{Source, State};

/// One k8s-event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    /// The uid of the object.
    pub(crate) uid: String,
    /// The time of the last occurrence.
    pub(crate) at: Timestamp,
    /// The type, such as `Normal`, `Warning`, `Error`.
    pub(crate) kind: String,
    /// The reason, such as `Logging`.
    pub(crate) reason: String,
    /// The text.
    pub(crate) message: String,
    /// The number of occurrences.
    pub(crate) count: i64,
}

impl Event {
    /// Reads an event; `None` if it has no time.
    pub(crate) fn read(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let moments = [
            value.pointer("/series/lastObservedTime"),
            value.get("lastTimestamp"),
            value.get("eventTime"),
            value.get("firstTimestamp"),
            value.pointer("/metadata/creationTimestamp"),
        ];
        // Servers truncate the microseconds of some of the times, so the newest one is exact.
        let moments = moments.into_iter().flatten().filter_map(Value::as_str);
        let at = moments
            .filter_map(|text| timestamp::parse(text).ok())
            .max()?;
        let uid = value.pointer("/involvedObject/uid").and_then(Value::as_str);
        Some(Self {
            uid: uid.unwrap_or_default().to_owned(),
            at,
            kind: text("type").to_owned(),
            reason: text("reason").to_owned(),
            message: text("message").to_owned(),
            count: value
                .get("count")
                .and_then(Value::as_i64)
                .unwrap_or(1)
                .max(1),
        })
    }

    /// Returns `true` if the event can change the outcome of an object.
    pub(crate) fn is_relevant(&self) -> bool {
        self.is_error() || self.failures().is_some()
    }

    fn is_error(&self) -> bool {
        matches!(self.kind.as_str(), "Error" | "Fatal")
    }

    /// Returns the number of failed handlers if the event reports the end of handling.
    fn failures(&self) -> Option<u64> {
        let (_, counts) = self.message.split_once(" is processed: ")?;
        let (_, failed) = counts.split_once(" succeeded; ")?;
        failed.strip_suffix(" failed.")?.parse().ok()
    }
}

/// The outcome of the last handling of one object, by its events.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventOutcome {
    error: Option<Event>,
    processed: Option<Event>,
}

impl EventOutcome {
    /// Adds an event. Events can be added in any order.
    pub(crate) fn add(&mut self, event: &Event) {
        let newer = |known: &Option<Event>| known.as_ref().is_none_or(|known| known.at <= event.at);
        if event.is_error() && newer(&self.error) {
            self.error = Some(event.clone());
        } else if event.failures().is_some() && newer(&self.processed) {
            self.processed = Some(event.clone());
        }
    }

    /// Returns the failure of the last handling; `None` if it has succeeded or is unknown.
    pub(crate) fn failure(&self) -> Option<State> {
        let is_failed = match (&self.processed, &self.error) {
            (Some(processed), _) if processed.failures() > Some(0) => true,
            (Some(processed), Some(error)) => error.at > processed.at && is_permanent(error),
            (None, Some(error)) => is_permanent(error),
            (_, None) => false,
        };
        let message = self.error.as_ref().map(|error| error.message.as_str());
        is_failed.then(|| State::Failed {
            handler: message.and_then(handler).map(str::to_owned),
            message: message.map(|message| after_handler(message).to_owned()),
            source: Source::Event,
        })
    }
}

/// Returns `false` for errors that are followed by another attempt.
fn is_permanent(error: &Event) -> bool {
    let message = &error.message;
    !message.starts_with("Handler ") || message.contains(" failed permanently")
}

/// Returns the id in messages such as `Handler 'fn' failed permanently: text`.
fn handler(message: &str) -> Option<&str> {
    let rest = message.strip_prefix("Handler '")?;
    rest.split_once('\'').map(|(id, _)| id)
}

fn after_handler(message: &str) -> &str {
    let text = handler(message).and_then(|_| message.split_once(": "));
    text.map_or(message, |(_, text)| text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn event(kind: &str, message: &str, second: u32) -> Event {
        let at = format!("2026-01-02T03:04:{second:02}.000000Z");
        let value = json!({
            "type": kind, "reason": "Logging", "message": message, "lastTimestamp": at,
            "involvedObject": {"uid": "u"},
        });
        Event::read(&value).unwrap()
    }

    fn failure(events: &[Event]) -> Option<(Option<String>, Option<String>)> {
        let mut outcome = EventOutcome::default();
        for event in events {
            outcome.add(event);
        }
        match outcome.failure()? {
            State::Failed {
                handler, message, ..
            } => Some((handler, message)),
            other => panic!("{other:?}"),
        }
    }

    const FAILED: &str = "Handler 'make' failed permanently: the end";

    #[test]
    fn failed_handling_has_the_handler_and_its_error() {
        let error = event("Error", FAILED, 1);
        let processed = event("Normal", "Creation is processed: 0 succeeded; 1 failed.", 2);
        let expected = Some((Some("make".to_owned()), Some("the end".to_owned())));
        assert_eq!(failure(&[processed.clone(), error.clone()]), expected);
        assert_eq!(failure(&[error]), expected);
        assert_eq!(failure(&[processed]), Some((None, None)));
    }

    #[test]
    fn later_success_and_temporary_errors_are_not_failures() {
        let error = event("Error", FAILED, 1);
        let success = event("Normal", "Updating is processed: 1 succeeded; 0 failed.", 2);
        assert_eq!(failure(&[error, success.clone()]), None);
        let temporary = event("Error", "Handler 'make' failed temporarily: later", 3);
        assert_eq!(failure(&[success.clone(), temporary]), None);
        assert!(failure(&[success, event("Error", FAILED, 3)]).is_some());
        assert_eq!(failure(&[]), None);
        assert_eq!(
            failure(&[event("Normal", "is processed: x succeeded; y failed.", 1)]),
            None
        );
    }

    #[test]
    fn recorded_events_of_the_original() {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/golden/s16-k8s-events/calls.json"
        );
        let calls: Vec<Value> =
            serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let events: Vec<_> = calls
            .iter()
            .filter_map(|call| Event::read(&call["body"]))
            .collect();
        assert!(events.len() > 5, "{events:?}");
        let (handler, message) = failure(&events).unwrap();
        assert_eq!(handler.as_deref(), Some("make"));
        assert_eq!(message.as_deref(), Some("the end"));
    }

    #[test]
    fn events_without_times_are_skipped() {
        assert_eq!(Event::read(&json!({"message": "x"})), None);
        assert_eq!(Event::read(&json!(5)), None);
    }
}
