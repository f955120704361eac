//! Readiness of an operator, with the reasons if it is not ready.

use serde_json::{Value, json};

use crate::health::Health;

/// The conditions of readiness at one moment.
#[derive(Debug, Clone)]
pub(super) struct Conditions {
    /// The state of the streams, which also determines the liveness.
    pub(super) health: Health,
    /// One line for each stream whose first listing is not complete.
    pub(super) unlisted: Vec<String>,
    /// Conditions that are not met.
    pub(super) unmet: Vec<Condition>,
}

/// A condition without further details.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// The operator is not stopping.
    Running,
    /// There are credentials for the API server.
    Credentials,
    /// The resources and namespaces of the cluster are discovered.
    Discovery,
    /// All indices are filled.
    Indices,
    /// The event loop of the frontend reacts.
    EventLoop,
}

impl Condition {
    fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Credentials => "credentials",
            Self::Discovery => "discovery",
            Self::Indices => "indices",
            Self::EventLoop => "event-loop",
        }
    }

    fn reason(self) -> &'static str {
        match self {
            Self::Running => "the operator is stopping",
            Self::Credentials => "no credentials for the API server: the login is pending",
            Self::Discovery => "the resources of the cluster are not discovered yet",
            Self::Indices => "the indices are not filled yet: no handlers are called until then",
            Self::EventLoop => {
                "the event loop of the operator does not react: a handler may block it"
            }
        }
    }
}

impl Conditions {
    pub(super) fn is_ready(&self) -> bool {
        self.unmet.is_empty() && self.unlisted.is_empty() && self.health.is_alive()
    }

    /// Returns the body of the response. A pause is only a note: a paused operator is a standby,
    /// and a rolling update would wait forever for a standby that is not ready.
    pub(super) fn to_json(&self) -> Value {
        let unmet = self.unmet.iter();
        let mut reasons: Vec<Value> = unmet
            .map(|condition| reason(condition.name(), condition.reason()))
            .collect();
        let streams = self.unlisted.iter().chain(&self.health.problems);
        reasons.extend(streams.map(|problem| reason("streams", problem)));
        json!({"ready": self.is_ready(), "reasons": reasons, "notes": self.health.notes})
    }
}

/// Returns the body of a response with the liveness.
pub(super) fn liveness(health: &Health) -> Value {
    let problems = health.problems.iter();
    let reasons: Vec<Value> = problems.map(|problem| reason("streams", problem)).collect();
    json!({"alive": health.is_alive(), "reasons": reasons, "notes": health.notes})
}

fn reason(check: &str, message: &str) -> Value {
    json!({"check": check, "message": message})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_named() {
        let mut conditions = Conditions {
            health: Health::default(),
            unlisted: Vec::new(),
            unmet: Vec::new(),
        };
        conditions.health.notes.push("things: paused".to_owned());
        assert!(conditions.is_ready(), "a standby is ready");
        conditions.unmet.push(Condition::Credentials);
        conditions
            .unlisted
            .push("others: not listed yet".to_owned());
        conditions.health.problems.push("silent".to_owned());
        let expected = json!({
            "ready": false,
            "reasons": [
                {
                    "check": "credentials",
                    "message": "no credentials for the API server: the login is pending",
                },
                {"check": "streams", "message": "others: not listed yet"},
                {"check": "streams", "message": "silent"},
            ],
            "notes": ["things: paused"],
        });
        assert_eq!(conditions.to_json(), expected);
    }
}
