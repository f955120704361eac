//! Waiting for quiet, for a state, or for a condition.

use std::sync::Arc;
use std::time::Duration;

use kopf_sandbox_schema::cel::Expression;
use serde_json::Value;
use tokio::time::Instant;

use super::{Flow, Running};
use crate::invariant::holds;
use crate::mask::{Difference, View, differences};
use crate::object::ObjectKey;
use crate::oracle::{Complaint, Oracle};
use crate::record::End;
use crate::run::recorder::Activity;
use crate::scenario::Target;

/// The interval in which the waits of the operator for a processor are read.
const LOOK: Duration = Duration::from_millis(150);

/// The end of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waited {
    Done,
    /// The next step was done early.
    Early,
}

/// The goal of a wait.
pub(super) enum Goal<'a> {
    /// No changes for this time.
    Quiet(Duration),
    /// The state of the reference, and no changes for this time.
    State(&'a View, Duration),
    /// A condition of the user.
    Condition(&'a Expression, Option<&'a Target>),
}

impl Running<'_> {
    /// Returns the activity of the operator. Its silence does not count while it waits for a processor: on a busy
    /// machine, it would seem to have settled.
    pub(super) fn activity(&mut self) -> Activity {
        let mut activity = self.recorder.activity();
        let elapsed = self.looked.elapsed();
        if elapsed >= LOOK {
            self.looked = Instant::now();
            let waited = self.crew.waited();
            self.lost += self.silence.look(activity.quiet_for, elapsed, LOOK, waited);
        }
        activity.quiet_for = self.silence.counted(activity.quiet_for);
        activity
    }

    /// Returns the time to give up, and the time that does not count so far.
    pub(super) fn deadline(&self) -> (Instant, Duration) {
        (Instant::now() + self.task.timing.limit, self.lost)
    }

    /// Returns `true` after a deadline. Time that does not count delays it, at most until twice the limit.
    pub(super) fn is_over(&self, (deadline, lost): (Instant, Duration)) -> bool {
        let delay = self.lost.saturating_sub(lost);
        Instant::now() >= deadline + delay.min(self.task.timing.limit)
    }

    pub(super) async fn wait(&mut self, goal: Goal<'_>) -> Flow<Waited> {
        let timing = self.task.timing;
        let deadline = self.deadline();
        let mut compared = None;
        let mut found = Vec::new();
        loop {
            self.tick().await?;
            if self.is_next_done {
                return Ok(Waited::Early);
            }
            let activity = self.activity();
            let is_settled = |pause: Duration| {
                activity.quiet_for >= pause && !activity.is_requesting && self.is_ready()
            };
            match &goal {
                Goal::Quiet(pause) if is_settled(*pause) => return Ok(Waited::Done),
                Goal::State(view, pause) if is_settled(*pause) => {
                    if compared != Some(activity.changes) {
                        compared = Some(activity.changes);
                        found = differences(view, &self.view(&self.recorder.snapshot()));
                    }
                    if found.is_empty() {
                        return Ok(Waited::Done);
                    }
                    if activity.quiet_for >= timing.settle * 3 && self.is_known(&found) {
                        return Err(self.not_converged(found));
                    }
                }
                Goal::Condition(condition, target) => {
                    if self.holds(condition, *target) {
                        return Ok(Waited::Done);
                    }
                }
                Goal::Quiet(_) | Goal::State(..) => {}
            }
            if self.is_over(deadline) {
                if let Goal::State(view, _) = &goal {
                    found = differences(view, &self.view(&self.recorder.snapshot()));
                }
                return Err(self.too_late(&goal, activity.quiet_for, found));
            }
        }
    }

    fn too_late(&self, goal: &Goal<'_>, quiet_for: Duration, found: Vec<Difference>) -> End {
        let step = self.step;
        match goal {
            Goal::Condition(..) => End::StepFailed {
                step,
                why: "its condition did not become true".to_owned(),
            },
            Goal::Quiet(pause) if quiet_for < *pause => End::NotQuiet { step },
            Goal::State(..) if quiet_for < self.task.timing.settle.min(Duration::from_secs(3)) => {
                End::NotQuiet { step }
            }
            Goal::State(..) if !found.is_empty() => self.not_converged(found),
            Goal::Quiet(_) | Goal::State(..) => End::NotReady { step },
        }
    }

    fn not_converged(&self, differences: Vec<Difference>) -> End {
        End::NotConverged {
            step: self.step,
            differences,
        }
    }

    fn is_known(&self, found: &[Difference]) -> bool {
        let complaint = Complaint {
            differences: found.to_vec(),
            ..Complaint::new(Oracle::Converged, self.step, "")
        };
        self.task.known.contains(&complaint.signature())
    }

    fn holds(&self, condition: &Expression, target: Option<&Target>) -> bool {
        let objects = self.recorder.snapshot().objects;
        let is_target = |key: &ObjectKey, object: &Value| {
            target.is_some_and(|target| {
                key.name == target.name
                    && object.get("kind").and_then(Value::as_str) == Some(target.kind.as_str())
                    && target
                        .namespace
                        .as_ref()
                        .is_none_or(|name| Some(name) == key.namespace.as_ref())
            })
        };
        let object = objects
            .iter()
            .find(|(key, object)| is_target(key, object))
            .map(|(_, object)| Arc::clone(object));
        // An error is usual while a field does not exist.
        holds(condition, object.as_deref(), &objects).unwrap_or_default()
    }
}
