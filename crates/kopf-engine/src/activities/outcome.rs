//! Results of activities.

use std::fmt;

use kopf_core::handler::{Activity, HandlerId};
use kopf_core::outcome::Outcome;
use kopf_core::wording;
use serde_json::Value;

use crate::invocation::Slot;

/// Results of the handlers of an activity, in the order of the handlers. Handlers whose errors are
/// ignored are included.
#[derive(Debug, Default)]
pub struct Finished(Vec<Returned>);

/// Result of one handler of an activity.
#[derive(Debug)]
pub struct Returned {
    /// The handler.
    pub id: HandlerId,
    /// The returned JSON, if any.
    pub value: Option<Value>,
    /// Returned values that are not JSON.
    pub slot: Slot,
}

/// Permanent failure of an activity.
#[derive(Debug)]
pub struct Error {
    activity: Activity,
    failures: Vec<(HandlerId, String)>,
    succeeded: Finished,
}

impl Finished {
    pub(super) fn new(
        activity: Activity,
        outcomes: Vec<(HandlerId, Outcome, Slot)>,
    ) -> Result<Self, Error> {
        let (mut returned, mut failures) = (Vec::new(), Vec::new());
        for (id, outcome, slot) in outcomes {
            match outcome.error {
                Some(error) => failures.push((id, error)),
                None => returned.push(Returned {
                    id,
                    value: outcome.value,
                    slot,
                }),
            }
        }
        let succeeded = Self(returned);
        if failures.is_empty() {
            Ok(succeeded)
        } else {
            Err(Error {
                activity,
                failures,
                succeeded,
            })
        }
    }

    /// Returns the results in the order of the handlers.
    pub fn iter(&self) -> impl Iterator<Item = &Returned> {
        self.0.iter()
    }

    /// Takes the values of this type out of the slots, with the ids of their handlers.
    pub fn take<T: Send + 'static>(&self) -> Vec<(HandlerId, T)> {
        let taken = self.0.iter().map(|returned| {
            let value = returned.slot.take::<T>();
            value.map(|value| (returned.id.clone(), value))
        });
        taken.flatten().collect()
    }
}

impl Error {
    /// Returns the failed activity.
    pub fn activity(&self) -> Activity {
        self.activity
    }

    /// Returns the ids of the failed handlers with their errors.
    pub fn failures(&self) -> &[(HandlerId, String)] {
        &self.failures
    }

    /// Returns the results of the other handlers.
    pub fn succeeded(&self) -> &Finished {
        &self.succeeded
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} has failed", self.activity.as_str())?;
        for (index, (id, error)) in self.failures.iter().enumerate() {
            let before = if index == 0 { ": " } else { "; " };
            let title = wording::activity(id).to_string();
            // Messages about exceeded limits already contain the name.
            if error.starts_with(&title) {
                write!(f, "{before}{error}")?;
            } else {
                write!(f, "{before}{title}: {error}")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
