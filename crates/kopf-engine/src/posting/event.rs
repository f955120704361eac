//! The body of one k8s-event.

use jiff::Timestamp;
use kopf_core::reference::ObjectReference;
use kopf_core::{settings, timestamp};
use serde_json::{Map, Value, json};

/// Maximum length of a message in bytes: the server rejects longer ones.
pub(super) const MESSAGE_LIMIT: usize = 1_024;
const MESSAGE_INFIX: &str = "...";

/// Identity of an event. Equal events are folded while they are queued.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Event {
    pub(super) object: ObjectReference,
    pub(super) type_: String,
    pub(super) reason: String,
    pub(super) message: String,
}

/// Number and time range of equal events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Occurrences {
    pub(super) count: i32,
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// `true` if an equal event was posted before.
    pub(super) is_repeat: bool,
}

impl Event {
    pub(super) fn body(
        &self,
        namespace: &str,
        posting: &settings::Posting,
        occurrences: Occurrences,
    ) -> Value {
        let mut object = match self.object.to_value() {
            Value::Object(object) => object,
            _ => Map::new(),
        };
        object.insert("namespace".to_owned(), namespace.into());
        let first = timestamp::format(occurrences.first);
        let mut body = json!({
            "metadata": {"namespace": namespace, "generateName": posting.event_name_prefix},
            "action": "Action?",
            "type": self.type_,
            "reason": self.reason,
            "message": self.message_of(occurrences),
            "reportingComponent": posting.reporting_component,
            "reportingInstance": posting.reporting_instance,
            "source": {"component": posting.reporting_component},
            "involvedObject": object,
            "firstTimestamp": first,
            "lastTimestamp": timestamp::format(occurrences.last),
            "eventTime": first,
        });
        if occurrences.count > 1
            && let Some(body) = body.as_object_mut()
        {
            body.insert("count".to_owned(), occurrences.count.into());
        }
        body
    }

    /// Returns the message; that of a repeat has the number of occurrences since the last event.
    fn message_of(&self, occurrences: Occurrences) -> String {
        let count = occurrences.count;
        if count <= 1 || !occurrences.is_repeat {
            return self.message.clone();
        }
        let suffix = format!(" ({count} times)");
        let limit = MESSAGE_LIMIT.saturating_sub(suffix.len());
        shortened(self.message.clone(), limit) + &suffix
    }
}

/// Replaces the middle of a message that exceeds the limit in bytes with an ellipsis.
pub(super) fn shortened(message: String, limit: usize) -> String {
    if message.len() <= limit {
        return message;
    }
    let room = limit.saturating_sub(MESSAGE_INFIX.len());
    let is_boundary = |&position: &usize| message.is_char_boundary(position);
    let head = (0..=room - room / 2).rev().find(is_boundary);
    let tail = (message.len() - room / 2..=message.len()).find(is_boundary);
    let (head, tail) = (head.unwrap_or_default(), tail.unwrap_or(message.len()));
    let (head, tail) = (message.get(..head), message.get(tail..));
    [
        head.unwrap_or_default(),
        MESSAGE_INFIX,
        tail.unwrap_or_default(),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_lose_their_middle() {
        let fits = "ä".repeat(512);
        assert_eq!(shortened(fits.clone(), 1_024), fits);
        let long = format!("{}{}{}", "a".repeat(511), "b".repeat(100), "c".repeat(510));
        let expected = format!("{}...{}", "a".repeat(511), "c".repeat(510));
        assert_eq!(shortened(long, 1_024), expected);
        let cut = shortened("ä".repeat(5_000), 1_024);
        assert!((1_020..=1_024).contains(&cut.len()), "{}", cut.len());
    }

    #[test]
    fn counts_fit_into_the_message() {
        let event = Event {
            object: ObjectReference::default(),
            type_: "Normal".to_owned(),
            reason: "Reason".to_owned(),
            message: "x".repeat(1_024),
        };
        let occurrences = |count, is_repeat| Occurrences {
            count,
            first: Timestamp::UNIX_EPOCH,
            last: Timestamp::UNIX_EPOCH,
            is_repeat,
        };
        assert_eq!(event.message_of(occurrences(1, true)), event.message);
        assert_eq!(event.message_of(occurrences(5, false)), event.message);
        let message = event.message_of(occurrences(12_345, true));
        assert_eq!(message.len(), 1_024);
        assert!(message.ends_with("x (12345 times)"), "{message}");
    }
}
