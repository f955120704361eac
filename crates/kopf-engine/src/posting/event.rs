//! The body of one k8s-event.

use jiff::Timestamp;
use kopf_core::reference::ObjectReference;
use kopf_core::{settings, timestamp};
use serde_json::{Map, Value, json};

/// Maximum length of a message in characters: the server rejects longer ones.
const MESSAGE_LIMIT: usize = 1_024;
const MESSAGE_INFIX: &str = "...";
const MESSAGE_TAIL: usize = 510;
const MESSAGE_HEAD: usize = MESSAGE_LIMIT - MESSAGE_INFIX.len() - MESSAGE_TAIL;

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
            "message": self.message,
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
}

/// Replaces the middle of a message that exceeds the limit with an ellipsis.
pub(super) fn shortened(message: String) -> String {
    let length = message.chars().count();
    if length <= MESSAGE_LIMIT {
        return message;
    }
    let head = message.chars().take(MESSAGE_HEAD);
    let tail = message.chars().skip(length - MESSAGE_TAIL);
    head.chain(MESSAGE_INFIX.chars()).chain(tail).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_lose_their_middle() {
        let fits = "ä".repeat(1_024);
        assert_eq!(shortened(fits.clone()), fits);
        let long = format!("{}{}{}", "a".repeat(511), "b".repeat(100), "c".repeat(510));
        let expected = format!("{}...{}", "a".repeat(511), "c".repeat(510));
        assert_eq!(shortened(long), expected);
        assert_eq!(shortened("ä".repeat(5_000)).chars().count(), 1_024);
    }
}
