//! Advice for each state.

use jiff::Timestamp;

use crate::state::{Finalizer, State};
use crate::time::remaining;

const NOT_SEEN: &str = "No operator has handled the object yet. Its first handlers may be running: \
                        the state is written when they end. If that lasts, check that an operator \
                        for this resource and namespace runs, that its filters match the object, \
                        and that it is not paused.";

const SETTLED: &str = "Nothing to do. `kopf retrigger` calls the handlers again.";

const CHANGED: &str = "The changes below are not handled yet. If that lasts, check that the operator \
                       runs and is not paused; fields that it ignores are excluded by \
                       --ignored-field.";

const HANDLING: &str = "Wait for the handlers. If that lasts, the operator does not run, is paused, or \
                        a handler hangs: see its logs.";

const OVERDUE: &str = "The next attempt is overdue: the operator does not run, is paused, or does not \
                       have the handler any longer.";

const FAILED: &str = "The handler is not called again by itself. Fix the cause, then change the object \
                      or run `kopf retrigger`.";

const HELD: &str = "The operator has not handled the deletion: check that it runs and is not paused. \
                    If it is uninstalled, `kopf release` removes its finalizer.";

const DELETING: &str = "Wait for the API server to remove the object.";

const UNREADABLE: &str = "Repair or remove the annotation named above; `kopf retrigger` removes all \
                          state of the operator, so that the object is handled as a new one.";

impl State {
    /// Returns the next step for the user, in one or two sentences.
    pub fn advice(&self, now: Timestamp) -> String {
        let text = match self {
            Self::NotSeen => NOT_SEEN,
            Self::Settled => SETTLED,
            Self::Changed { .. } => CHANGED,
            Self::Handling { .. } => HANDLING,
            Self::Retrying { at, .. } if remaining(now, *at).is_none() => OVERDUE,
            Self::Retrying { handler, .. } => {
                return format!(
                    "The operator calls {handler} again by itself. If the error persists, fix its \
                     cause; a change of the object is handled as well."
                );
            }
            Self::Failed { .. } => FAILED,
            Self::Blocked { finalizers } => return blocked(finalizers),
            Self::Deleting => DELETING,
            Self::Unreadable { .. } => UNREADABLE,
        };
        text.to_owned()
    }

    /// Returns the next step if the operator is paused, for states in which the operator has to act;
    /// `None` for the others.
    pub(crate) fn advice_when_paused(&self, pause: &str) -> Option<String> {
        match self {
            Self::NotSeen
            | Self::Changed { .. }
            | Self::Handling { .. }
            | Self::Retrying { .. } => Some(pause.to_owned()),
            Self::Blocked { finalizers } => {
                let is_other = |one: &&Finalizer| matches!(one, Finalizer::Other(_));
                let others: Vec<_> = finalizers.iter().filter(is_other).cloned().collect();
                let is_own = others.len() < finalizers.len();
                is_own.then(|| {
                    format!("{pause} {}", blocked(&others))
                        .trim_end()
                        .to_owned()
                })
            }
            Self::Settled | Self::Failed { .. } | Self::Deleting | Self::Unreadable { .. } => None,
        }
    }
}

fn blocked(finalizers: &[Finalizer]) -> String {
    let others: Vec<_> = finalizers
        .iter()
        .filter(|finalizer| matches!(finalizer, Finalizer::Other(_)))
        .map(Finalizer::name)
        .collect();
    let mut sentences = Vec::new();
    if others.len() < finalizers.len() {
        sentences.push(HELD.to_owned());
    }
    if !others.is_empty() {
        let others = others.join(", ");
        sentences.push(format!(
            "Other controllers must remove their finalizers: {others}."
        ));
    }
    sentences.join(" ")
}
