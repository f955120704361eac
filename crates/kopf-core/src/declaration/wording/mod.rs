//! All log messages about the handling of objects.
//!
//! People watch and search logs by these sentences, so they are the original's, in one place and
//! compared with its recordings. Functions return values that implement `Display`: nothing is
//! formatted unless the record is logged.

mod level;
mod style;
mod time;

use std::fmt::{Display, Formatter};
use std::time::Duration;

use serde_json::Value;

pub use level::Level;
pub use style::Style;
use time::Lazy;
pub use time::{elapsed, measured, seconds};

use crate::cause::Reason;
use crate::diff::Diff;
use crate::handler::HandlerKind;
use crate::literal::Text;
use crate::trigger::Triggers;

/// The finalizer is needed and will be added.
pub const ADDING_FINALIZER: &str = "Adding the finalizer, thus preventing the actual deletion.";
/// The finalizer is there, but nothing needs it any longer.
pub const DROPPING_FINALIZER: &str =
    "Removing the finalizer, as there are no handlers requiring it.";
/// All is done before the deletion.
pub const REMOVING_FINALIZER: &str = "Removing the finalizer, thus allowing the actual deletion.";
/// The cause is `gone`.
pub const GONE: &str = "Deleted, really deleted, and we are notified.";
/// The cause is `free`.
pub const FREE: &str = "Deletion, but we are done with it, and we do not care.";
/// The cause is `noop`.
pub const NOOP: &str =
    "Something has changed, but we are not interested (the essence is the same).";
/// Nothing is left to do for the object.
pub const CYCLE_FINISHED: &str = "Handling cycle is finished, waiting for new changes.";
/// The object vanished before it could be patched.
pub const PATCH_SKIPPED: &str = "Patching was skipped: the object does not exist anymore.";
/// Errors of the framework are over for now.
pub const THROTTLING_OVER: &str = "Throttling is over. Switching back to normal operations.";

/// Follows a diff with fields that are missing in the response.
const PRUNED: &str = ". The API server drops fields that the schema of the CRD does not have: add them to \
                      the schema, or set x-kubernetes-preserve-unknown-fields: true on their parent \
                      (for results of handlers: on status).";

/// Returns `Handler 'id'`: the label of change and event handlers in the log.
pub fn handler(id: &str) -> impl Display {
    labelled("Handler", id)
}

/// Returns `Activity 'id'`: the label of activities in the log.
pub fn activity(id: &str) -> impl Display {
    labelled("Activity", id)
}

/// Returns `Daemon 'id'`: the label of daemons in the log.
pub fn daemon(id: &str) -> impl Display {
    labelled("Daemon", id)
}

/// Returns `Timer 'id'`: the label of timers in the log.
pub fn timer(id: &str) -> impl Display {
    labelled("Timer", id)
}

/// Returns `Indexer 'id'`: the label of index functions in the log.
pub fn indexer(id: &str) -> impl Display {
    labelled("Indexer", id)
}

/// Returns `Webhook 'id'`: the label of admission handlers in the log.
pub fn webhook(id: &str) -> impl Display {
    labelled("Webhook", id)
}

/// Returns the label of a handler of any type in the log.
pub fn label(kind: HandlerKind, id: &str) -> impl Display {
    let name = match kind {
        HandlerKind::Daemon(_) => "Daemon",
        HandlerKind::Timer(_) => "Timer",
        HandlerKind::Index => "Indexer",
        HandlerKind::Activity(_) => "Activity",
        HandlerKind::Admission(_) => "Webhook",
        _ => "Handler",
    };
    labelled(name, id)
}

fn labelled(kind: &'static str, id: &str) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| write!(f, "{kind} {}", Text(id)))
}

/// Formats the start of an attempt.
pub fn invoked(label: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| write!(f, "{label} is invoked."))
}

/// Formats the reasons of the call of a reconcile handler.
pub fn reconciling(triggers: Triggers) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| write!(f, "Reconciliation is in progress: {triggers}."))
}

/// Formats the cancellation of an attempt because the operator stops.
pub fn cancelled(label: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| write!(f, "{label} is cancelled. Will escalate."))
}

/// Formats the signal to a daemon, which has time to end.
pub fn signalled(label: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| write!(f, "{label} is signalled to exit gracefully."))
}

/// Formats the cancellation of a daemon that has not ended by itself.
pub fn forced(label: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| write!(f, "{label} is signalled to exit by force."))
}

/// Formats the abandonment of a daemon that has not ended after its cancellation.
pub fn orphaned(label: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(f, "{label} did not exit in time. Leaving it orphaned.")
    })
}

/// Formats the wait for a daemon that has not ended yet.
pub fn still_exiting(label: impl Display, polling: Duration) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let polling = seconds(polling);
        write!(
            f,
            "{label} is still exiting. The next check is in {polling} seconds."
        )
    })
}

/// Formats the end of a daemon after a signal.
pub fn exited_on_request(label: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(
            f,
            "{label} has exited on request and will not be retried or restarted."
        )
    })
}

/// Formats the end of a daemon without a signal.
pub fn exited_on_its_own(label: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(
            f,
            "{label} has exited on its own and will not be retried or restarted."
        )
    })
}

/// Formats the start of the handling of a cause, with the whole object.
pub fn in_progress(reason: Reason, body: &Value, style: Style) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(f, "{} is in progress: {}", title(reason), style.value(body))
    })
}

/// Formats the changes since the last handling.
pub fn diff(reason: Reason, diff: &Diff, style: Style) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| write!(f, "{} diff: {}", title(reason), style.diff(diff)))
}

/// Formats the end of the handling of a cause, with the numbers of successes and failures.
pub fn processed(reason: Reason, succeeded: usize, failed: usize) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let title = title(reason);
        write!(
            f,
            "{title} is processed: {succeeded} succeeded; {failed} failed."
        )
    })
}

/// Formats the replacement of an unfinished cause by another one.
pub fn superseded(
    purpose: &str,
    reason: Reason,
    succeeded: usize,
    failed: usize,
    left: usize,
) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        match Reason::parse(purpose).and_then(Reason::title) {
            Some(title) => write!(f, "{}", capitalized(title))?,
            None => write!(f, "{}", Text(purpose))?,
        }
        let title = reason.title().unwrap_or(reason.as_str());
        write!(f, " is superseded by {title}: ")?;
        write!(
            f,
            "{succeeded} succeeded; {failed} failed; {left} left to the moment."
        )
    })
}

/// Formats a delay before handlers are retried.
pub fn sleeping(delay: Duration) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(
            f,
            "Sleeping for {} seconds for the delayed handlers.",
            measured(delay)
        )
    })
}

/// Formats a long delay before handlers are retried.
pub fn sleeping_capped(delay: Duration, limit: Duration) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let (delay, limit) = (measured(delay), seconds(limit));
        write!(
            f,
            "Sleeping for {delay} (capped {limit}) seconds for the delayed handlers."
        )
    })
}

/// Formats a skipped delay: the event of the patch continues the handling.
pub fn sleeping_skipped(left: Duration) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let left = measured(left);
        write!(
            f,
            "Sleeping was skipped because of the patch, {left} seconds left."
        )
    })
}

/// Formats a delay that is interrupted by a newer event.
pub fn sleeping_interrupted(left: Duration) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let left = measured(left);
        write!(
            f,
            "Sleeping was interrupted by new changes, {left} seconds left."
        )
    })
}

/// Formats the first API call of a patch.
pub fn merge_patching_resource(payload: &Value, style: Style) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(
            f,
            "Merge-patching the resource with: {}",
            style.value(payload)
        )
    })
}

/// Formats the second API call of a patch.
pub fn merge_patching_status(payload: &Value, style: Style) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(
            f,
            "Merge-patching the status with: {}",
            style.value(payload)
        )
    })
}

/// Formats the third API call of a patch.
pub fn json_patching_resource(payload: &Value, style: Style) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(
            f,
            "JSON-patching the resource with: {}",
            style.value(payload)
        )
    })
}

/// Formats the fourth API call of a patch.
pub fn json_patching_status(payload: &Value, style: Style) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(f, "JSON-patching the status with: {}", style.value(payload))
    })
}

/// Formats a rejected JSON patch, which is carried over to the next cycle.
pub fn patch_conflict(remaining: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        f.write_str("Could not apply the patch in full due to conflicts with newer changes. ")?;
        write!(f, "Will try on the next cycle soon. Remaining: {remaining}")
    })
}

/// Formats the differences between the response of the server and the patch.
pub fn inconsistencies(diff: &Diff, style: Style) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let shown = style.diff(diff);
        write!(f, "Merge-patching finished with inconsistencies: {shown}")?;
        let is_pruned = diff.iter().any(|item| item.new.is_null());
        match style {
            Style::Native if is_pruned => f.write_str(PRUNED),
            _ => Ok(()),
        }
    })
}

/// Formats a failure of the framework on this object.
pub fn throttling(delay: Duration, error: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let delay = seconds(delay);
        write!(
            f,
            "Throttling for {delay} seconds due to an unexpected error: {error}"
        )
    })
}

/// Formats a delay after a cycle without a visible effect.
pub fn stalled(delay: Duration) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let delay = seconds(delay);
        write!(
            f,
            "Handling makes no progress: the state that was written is not on the object (it may be \
             removed by a webhook, a schema, or another client). Trying again in {delay} seconds."
        )
    })
}

/// Formats a delay after a change that came with an own write.
pub fn stamped(field: &str, manager: Option<&str>, delay: Duration) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let delay = seconds(delay);
        write!(
            f,
            "Each write of this operator also changes the field {field:?}, which is handled as an \
             update, which is written again. An admission webhook probably sets the field"
        )?;
        match manager {
            Some(manager) => write!(f, " (its field manager is {manager:?})")?,
            None => f.write_str(" (it has no field manager)")?,
        }
        write!(f, ". Handling the update in {delay} seconds.")
    })
}

/// Formats a delay after the finalizer was reverted.
pub fn finalizer_reverted(finalizer: &str, delay: Duration) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let delay = seconds(delay);
        write!(
            f,
            "The finalizer '{finalizer}' does not stay as it was written (it may be changed by a \
             webhook or another client): the object is handled regardless, but its deletion may go \
             unnoticed. Trying again in {delay} seconds."
        )
    })
}

fn title(reason: Reason) -> impl Display {
    capitalized(reason.title().unwrap_or(reason.as_str()))
}

fn capitalized(text: &str) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let mut chars = text.chars();
        if let Some(first) = chars.next() {
            write!(f, "{}", first.to_uppercase())?;
        }
        f.write_str(chars.as_str())
    })
}

#[cfg(test)]
mod tests;
