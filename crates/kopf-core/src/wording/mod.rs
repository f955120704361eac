//! All human texts that the log has about the handling of objects.
//!
//! People watch and search logs by these sentences, so they are the original's, in one place and
//! compared with its recordings. Functions return what can be displayed: nothing is formatted
//! unless somebody reads it. Which of them are said when is decided elsewhere.

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

/// `Handler 'id'`: how handlers of changes and events are called in the log.
pub fn handler(id: &str) -> impl Display {
    labelled("Handler", id)
}

/// `Activity 'id'`: how handlers of the operator's own life are called in the log.
pub fn activity(id: &str) -> impl Display {
    labelled("Activity", id)
}

/// `Daemon 'id'`: how daemons are called in the log.
pub fn daemon(id: &str) -> impl Display {
    labelled("Daemon", id)
}

/// `Timer 'id'`: how timers are called in the log.
pub fn timer(id: &str) -> impl Display {
    labelled("Timer", id)
}

/// `Indexer 'id'`: how index functions are called in the log.
pub fn indexer(id: &str) -> impl Display {
    labelled("Indexer", id)
}

/// `Webhook 'id'`: how admission handlers are called in the log.
pub fn webhook(id: &str) -> impl Display {
    labelled("Webhook", id)
}

/// How a handler of any kind is called in the log.
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

/// An attempt begins.
pub fn invoked(label: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| write!(f, "{label} is invoked."))
}

/// An attempt was cut off because the operator stops.
pub fn cancelled(label: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| write!(f, "{label} is cancelled. Will escalate."))
}

/// A daemon was told to end, and has some time for it.
pub fn signalled(label: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| write!(f, "{label} is signalled to exit gracefully."))
}

/// A daemon has not ended by itself, and is cancelled.
pub fn forced(label: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| write!(f, "{label} is signalled to exit by force."))
}

/// A daemon has not ended even when it was cancelled.
pub fn orphaned(label: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(f, "{label} did not exit in time. Leaving it orphaned.")
    })
}

/// A daemon has not ended yet, and is waited for.
pub fn still_exiting(label: impl Display, polling: Duration) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let polling = seconds(polling);
        write!(
            f,
            "{label} is still exiting. The next check is in {polling} seconds."
        )
    })
}

/// A daemon has ended because it was told to.
pub fn exited_on_request(label: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(
            f,
            "{label} has exited on request and will not be retried or restarted."
        )
    })
}

/// A daemon has ended although nobody has told it to.
pub fn exited_on_its_own(label: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(
            f,
            "{label} has exited on its own and will not be retried or restarted."
        )
    })
}

/// A cause is being handled; the whole object follows.
pub fn in_progress(reason: Reason, body: &Value, style: Style) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(f, "{} is in progress: {}", title(reason), style.value(body))
    })
}

/// What has changed since the last handling.
pub fn diff(reason: Reason, diff: &Diff, style: Style) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| write!(f, "{} diff: {}", title(reason), style.diff(diff)))
}

/// All handlers of a cause are finished, for better or worse.
pub fn processed(reason: Reason, succeeded: usize, failed: usize) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let title = title(reason);
        write!(
            f,
            "{title} is processed: {succeeded} succeeded; {failed} failed."
        )
    })
}

/// Another cause takes over from one that is not finished.
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

/// Handlers are to be tried again later.
pub fn sleeping(delay: Duration) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(
            f,
            "Sleeping for {} seconds for the delayed handlers.",
            measured(delay)
        )
    })
}

/// Handlers are to be tried again much later.
pub fn sleeping_capped(delay: Duration, limit: Duration) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let (delay, limit) = (measured(delay), seconds(limit));
        write!(
            f,
            "Sleeping for {delay} (capped {limit}) seconds for the delayed handlers."
        )
    })
}

/// There is a delay, but also a patch, whose own event continues.
pub fn sleeping_skipped(left: Duration) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let left = measured(left);
        write!(
            f,
            "Sleeping was skipped because of the patch, {left} seconds left."
        )
    })
}

/// A newer event has come before the delay was over.
pub fn sleeping_interrupted(left: Duration) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let left = measured(left);
        write!(
            f,
            "Sleeping was interrupted by new changes, {left} seconds left."
        )
    })
}

/// The first kind of API calls of a patch.
pub fn merge_patching_resource(payload: &Value, style: Style) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(
            f,
            "Merge-patching the resource with: {}",
            style.value(payload)
        )
    })
}

/// The second kind of API calls of a patch.
pub fn merge_patching_status(payload: &Value, style: Style) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(
            f,
            "Merge-patching the status with: {}",
            style.value(payload)
        )
    })
}

/// The third kind of API calls of a patch.
pub fn json_patching_resource(payload: &Value, style: Style) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(
            f,
            "JSON-patching the resource with: {}",
            style.value(payload)
        )
    })
}

/// The fourth kind of API calls of a patch.
pub fn json_patching_status(payload: &Value, style: Style) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        write!(f, "JSON-patching the status with: {}", style.value(payload))
    })
}

/// The server refused the guarded part of a patch; it is carried over to the next cycle.
pub fn patch_conflict(remaining: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        f.write_str("Could not apply the patch in full due to conflicts with newer changes. ")?;
        write!(f, "Will try on the next cycle soon. Remaining: {remaining}")
    })
}

/// The server's response differs from what was sent.
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

/// The framework itself has failed on this object.
pub fn throttling(delay: Duration, error: impl Display) -> impl Display {
    Lazy(move |f: &mut Formatter<'_>| {
        let delay = seconds(delay);
        write!(
            f,
            "Throttling for {delay} seconds due to an unexpected error: {error}"
        )
    })
}

/// The last cycle had no effect that can be seen on the object.
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

/// The finalizer does not stay as the operator has left it.
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
