//! What comes out of an activity.

use std::fmt;

use kopf_core::handler::{Activity, HandlerId};
use kopf_core::outcome::Outcome;
use kopf_core::wording;
use serde_json::Value;

use crate::invocation::Slot;

/// What the handlers of an activity have returned, in their order: all of them have succeeded, or
/// their errors do not matter.
#[derive(Debug, Default)]
pub struct Finished(Vec<Returned>);

/// What one handler of an activity has returned.
#[derive(Debug)]
pub struct Returned {
    /// The handler.
    pub id: HandlerId,
    /// Its JSON, if it has returned any.
    pub value: Option<Value>,
    /// What it has returned that is no JSON.
    pub slot: Slot,
}

/// Handlers of an activity have failed for good.
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

    /// The results, in the order of the handlers.
    pub fn iter(&self) -> impl Iterator<Item = &Returned> {
        self.0.iter()
    }

    /// Takes what was put into the slots and is of this type, by the ids of the handlers.
    pub fn take<T: Send + 'static>(&self) -> Vec<(HandlerId, T)> {
        let taken = self.0.iter().map(|returned| {
            let value = returned.slot.take::<T>();
            value.map(|value| (returned.id.clone(), value))
        });
        taken.flatten().collect()
    }
}

impl Error {
    /// What has failed.
    pub fn activity(&self) -> Activity {
        self.activity
    }

    /// Which handlers have failed, and why.
    pub fn failures(&self) -> &[(HandlerId, String)] {
        &self.failures
    }

    /// What the other handlers have returned.
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
            // Limits are told with the name already.
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
