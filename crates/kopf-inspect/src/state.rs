//! The state of a handled object, derived from its content.

use jiff::Timestamp;
use kopf_core::timestamp;
use serde_json::{Value, json};

use crate::time::{ago, remaining};

/// The state of one object from the point of view of its operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The object has no state of an operator.
    NotSeen,
    /// The current configuration was handled.
    Settled,
    /// The configuration differs from the last handled one, and no handler has started.
    Changed {
        /// The number of changed fields.
        fields: usize,
    },
    /// Handlers are running or about to run.
    Handling {
        /// The reason, such as `create`; `None` if it is not stored.
        purpose: Option<String>,
        /// The number of finished handlers.
        finished: usize,
        /// The number of handlers with records.
        known: usize,
    },
    /// A handler has failed temporarily and is called again later.
    Retrying {
        /// The id of the handler.
        handler: String,
        /// The number of the next attempt, starting with 1.
        attempt: u32,
        /// The time of the next attempt.
        at: Timestamp,
        /// The text of the last error.
        message: Option<String>,
    },
    /// A handler has failed permanently.
    Failed {
        /// The id of the handler; `None` if unknown.
        handler: Option<String>,
        /// The text of the error.
        message: Option<String>,
        /// The source of this information.
        source: Source,
    },
    /// The object is marked for deletion, and finalizers keep it.
    Blocked {
        /// The finalizers.
        finalizers: Vec<Finalizer>,
    },
    /// The object is marked for deletion, and no finalizer keeps it.
    Deleting,
    /// The stored state cannot be parsed, so the operator cannot handle the object.
    Unreadable {
        /// The error.
        problem: String,
    },
}

/// The source of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The progress records on the object.
    Record,
    /// The last k8s-events of the object.
    Event,
}

/// A finalizer and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finalizer {
    /// The finalizer of the inspected operator.
    Operator(String),
    /// The finalizer of another controller.
    Other(String),
}

impl Finalizer {
    /// Returns the finalizer.
    pub fn name(&self) -> &str {
        match self {
            Self::Operator(name) | Self::Other(name) => name,
        }
    }
}

impl State {
    /// All short names, sorted by urgency.
    pub const NAMES: [&'static str; 9] = [
        "failed",
        "unreadable",
        "retrying",
        "blocked",
        "deleting",
        "changed",
        "handling",
        "not seen",
        "settled",
    ];

    /// Returns a number that is higher for more urgent states.
    pub(crate) fn urgency(&self) -> usize {
        let name = self.name();
        let position = Self::NAMES.iter().position(|known| *known == name);
        Self::NAMES.len() - position.unwrap_or_default()
    }

    /// Returns the short name, such as `retrying`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NotSeen => "not seen",
            Self::Settled => "settled",
            Self::Changed { .. } => "changed",
            Self::Handling { .. } => "handling",
            Self::Retrying { .. } => "retrying",
            Self::Failed { .. } => "failed",
            Self::Blocked { .. } => "blocked",
            Self::Deleting => "deleting",
            Self::Unreadable { .. } => "unreadable",
        }
    }

    /// Returns the details in one line; empty if there are none.
    pub fn details(&self, now: Timestamp) -> String {
        match self {
            Self::NotSeen | Self::Settled | Self::Deleting => String::new(),
            Self::Changed { fields: 1 } => "1 field".to_owned(),
            Self::Changed { fields } => format!("{fields} fields"),
            Self::Handling {
                purpose,
                finished,
                known,
            } => {
                let purpose = purpose.as_deref().map(|purpose| format!("{purpose}: "));
                let purpose = purpose.unwrap_or_default();
                match known {
                    0 => "no handler has finished".to_owned(),
                    _ => format!("{purpose}{finished} of {known} handlers finished"),
                }
            }
            Self::Retrying {
                handler,
                attempt,
                at,
                message,
            } => {
                let when = match remaining(now, *at) {
                    Some(delay) => format!("in {delay}"),
                    None => format!("due {}", ago(now, *at)),
                };
                format!(
                    "{when}: {handler} (attempt {attempt}){}",
                    colon(message.as_deref())
                )
            }
            Self::Failed {
                handler, message, ..
            } => match (handler, message) {
                (Some(handler), message) => format!("{handler}{}", colon(message.as_deref())),
                (None, Some(message)) => message.clone(),
                (None, None) => String::new(),
            },
            Self::Blocked { finalizers } => {
                let names: Vec<_> = finalizers.iter().map(Finalizer::name).collect();
                format!("by {}", names.join(", "))
            }
            Self::Unreadable { problem } => problem.clone(),
        }
    }

    /// Returns the state as JSON.
    pub fn to_value(&self) -> Value {
        let mut value = match self {
            Self::NotSeen | Self::Settled | Self::Deleting => json!({}),
            Self::Changed { fields } => json!({"fields": fields}),
            Self::Handling {
                purpose,
                finished,
                known,
            } => json!({"purpose": purpose, "finished": finished, "known": known}),
            Self::Retrying {
                handler,
                attempt,
                at,
                message,
            } => {
                let at = timestamp::format(*at);
                json!({"handler": handler, "attempt": attempt, "at": at, "message": message})
            }
            Self::Failed {
                handler,
                message,
                source,
            } => {
                let source = match source {
                    Source::Record => "record",
                    Source::Event => "event",
                };
                json!({"handler": handler, "message": message, "source": source})
            }
            Self::Blocked { finalizers } => {
                let names: Vec<_> = finalizers.iter().map(Finalizer::name).collect();
                json!({"finalizers": names})
            }
            Self::Unreadable { problem } => json!({"problem": problem}),
        };
        value["name"] = Value::from(self.name());
        value
    }
}

fn colon(message: Option<&str>) -> String {
    message
        .map(|message| format!(": {message}"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(text: &str) -> Timestamp {
        timestamp::parse(text).unwrap()
    }

    fn retrying() -> State {
        State::Retrying {
            handler: "create_fn".to_owned(),
            attempt: 3,
            at: moment("2026-01-02T03:04:17Z"),
            message: Some("not ready".to_owned()),
        }
    }

    #[test]
    fn retries_have_their_delay_attempt_and_message() {
        let state = retrying();
        let now = moment("2026-01-02T03:04:05Z");
        assert_eq!(
            state.details(now),
            "in 12 s: create_fn (attempt 3): not ready"
        );
        let later = moment("2026-01-02T03:05:17Z");
        assert_eq!(
            state.details(later),
            "due 60 s ago: create_fn (attempt 3): not ready"
        );
        assert!(state.advice(later).contains("overdue"));
        assert!(!state.advice(now).contains("overdue"));
    }

    #[test]
    fn every_state_has_a_name_advice_and_json() {
        let now = moment("2026-01-02T03:04:05Z");
        let own = Finalizer::Operator("ours".to_owned());
        let other = Finalizer::Other("theirs".to_owned());
        let states = [
            State::NotSeen,
            State::Settled,
            State::Changed { fields: 1 },
            State::Handling {
                purpose: None,
                finished: 0,
                known: 0,
            },
            retrying(),
            State::Failed {
                handler: None,
                message: None,
                source: Source::Event,
            },
            State::Blocked {
                finalizers: vec![own, other],
            },
            State::Deleting,
            State::Unreadable {
                problem: "garbage".to_owned(),
            },
        ];
        for state in &states {
            assert!(State::NAMES.contains(&state.name()));
            assert!(state.advice(now).ends_with('.'), "{state:?}");
            assert_eq!(state.to_value()["name"], state.name());
        }
        assert_eq!(states.len(), State::NAMES.len());
        let advice = states[6].advice(now);
        assert!(
            advice.contains("kopf release") && advice.contains("theirs."),
            "{advice}"
        );
        assert_eq!(states[6].details(now), "by ours, theirs");
    }
}
