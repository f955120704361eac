//! Causes: the reason of an event, derived from the event and the stored state.
//!
//! The module is pure. Its inputs are collected by the processing, and the registry selects
//! handlers for its result.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::body::Body;
use crate::diff::Diff;
use crate::field::{FieldPath, resolve_lenient};
use crate::finalizer;
use crate::resource::Resource;

/// The reason why change handlers are (or are not) called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The object was never handled before.
    Create,
    /// The object differs from its diff-base.
    Update,
    /// The object is marked for deletion, and has our finalizer.
    Delete,
    /// The object is seen for the first time in this process, and is unchanged.
    Resume,
    /// No tracked field has changed.
    Noop,
    /// The object is marked for deletion, and does not have our finalizer.
    Free,
    /// The object does not exist any longer.
    Gone,
}

impl Reason {
    /// Returns the name in records and arguments.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
            Self::Resume => "resume",
            Self::Noop => "noop",
            Self::Free => "free",
            Self::Gone => "gone",
        }
    }

    /// Parses the name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "create" => Self::Create,
            "update" => Self::Update,
            "delete" => Self::Delete,
            "resume" => Self::Resume,
            "noop" => Self::Noop,
            "free" => Self::Free,
            "gone" => Self::Gone,
            _ => return None,
        })
    }

    /// Returns the name of the handling in logs, such as `creation`; `None` if it is not handled.
    pub fn title(self) -> Option<&'static str> {
        Some(match self {
            Self::Create => "creation",
            Self::Update => "updating",
            Self::Delete => "deletion",
            Self::Resume => "resuming",
            Self::Noop | Self::Free | Self::Gone => return None,
        })
    }

    /// Returns `true` if handlers are called for this reason.
    pub fn is_handled(self) -> bool {
        self.title().is_some()
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// The type of an event in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventType {
    /// An item of a listing.
    Listed,
    /// The object was added to the selection.
    Added,
    /// The object was changed.
    Modified,
    /// The object was deleted.
    Deleted,
}

impl EventType {
    /// Returns the name in the stream; `None` for items of listings.
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Self::Listed => None,
            Self::Added => Some("ADDED"),
            Self::Modified => Some("MODIFIED"),
            Self::Deleted => Some("DELETED"),
        }
    }
}

/// An object with the event and the changes to handle.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Cause {
    /// The resource of the object.
    pub resource: Arc<Resource>,
    /// The object.
    pub body: Body,
    /// The event; `None` if the cycle was started by a timer.
    pub event: Option<EventType>,
    /// The changes; only for change handlers.
    pub change: Option<Change>,
}

/// The changes of an object since it was last handled.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Change {
    /// The reason to call handlers.
    pub reason: Reason,
    /// `true` if the object existed before this process, and was not handled in it yet.
    pub initial: bool,
    /// The diff-base; `None` if the object was never handled.
    pub old: Option<Arc<Value>>,
    /// The current essence.
    pub new: Option<Arc<Value>>,
    /// The difference between the two.
    pub diff: Diff,
    /// The field of the object that `old`, `new` and `diff` belong to; the root for whole objects.
    pub field: FieldPath,
}

impl Change {
    /// Returns a change of a whole object.
    pub fn new(
        reason: Reason,
        initial: bool,
        old: Option<Arc<Value>>,
        new: Option<Arc<Value>>,
        diff: Diff,
    ) -> Self {
        Self {
            reason,
            initial,
            old,
            new,
            diff,
            field: FieldPath::root(),
        }
    }
}

impl Cause {
    /// Returns a cause without an event and changes.
    pub fn new(resource: Arc<Resource>, body: Body) -> Self {
        Self {
            resource,
            body,
            event: None,
            change: None,
        }
    }

    /// Returns the change for a handler of one field: `old`, `new` and `diff` are those of the
    /// field, the rest is the same. Absent values are `None`.
    #[must_use]
    pub fn reduced(&self, field: &FieldPath) -> Self {
        let at_field = |side: &Option<Arc<Value>>| {
            let value = resolve_lenient(side.as_deref()?, field)?;
            Some(Arc::new(value.clone()))
        };
        Self {
            resource: Arc::clone(&self.resource),
            body: self.body.clone(),
            event: self.event,
            change: self.change.as_ref().map(|change| Change {
                reason: change.reason,
                initial: change.initial,
                old: at_field(&change.old),
                new: at_field(&change.new),
                diff: change.diff.reduce(field),
                field: change.field.joined(field),
            }),
        }
    }
}

/// The current essence of an object, compared with its diff-base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(hidden)] // The engine detects causes.
pub enum Compared {
    /// There is no diff-base: the object was never handled.
    Unhandled,
    /// They differ.
    Changed,
    /// They are equal.
    Unchanged,
}

/// The history of an object in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(hidden)] // The engine detects causes.
pub enum Sighting {
    /// The object existed before this process, and was not handled in it yet.
    Initial,
    /// The object was handled in this process, or appeared later.
    Later,
}

/// The result of [`detect`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)] // The engine detects causes.
pub struct Detected {
    /// The reason why handlers are (or are not) called.
    pub reason: Reason,
    /// `true` if resuming handlers are called as well.
    pub initial: bool,
}

/// Detects the reason of a change, from the first to the last of these: gone, free, delete, create,
/// resume, noop, update.
///
/// Of the event's type, only `DELETED` matters: a listed object without a diff-base was created while
/// no operator was running. `Create` never implies `Resume`.
#[doc(hidden)] // The engine detects causes.
pub fn detect(
    event: EventType,
    body: &Body,
    finalizer: &str,
    compared: Compared,
    sighting: Sighting,
) -> Detected {
    let reason = if event == EventType::Deleted {
        Reason::Gone
    } else if body.is_deleting() {
        if finalizer::is_blocked(body, finalizer) {
            Reason::Delete
        } else {
            Reason::Free
        }
    } else {
        match (compared, sighting) {
            (Compared::Unhandled, _) => Reason::Create,
            (Compared::Changed, _) => Reason::Update,
            (Compared::Unchanged, Sighting::Initial) => Reason::Resume,
            (Compared::Unchanged, Sighting::Later) => Reason::Noop,
        }
    };
    Detected {
        reason,
        initial: sighting == Sighting::Initial && reason != Reason::Create,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::diff::diff;

    const FINALIZER: &str = "f.example/F";

    fn body(deleting: bool, blocked: bool) -> Body {
        let mut metadata = json!({"name": "x", "finalizers": ["other"]});
        if deleting {
            metadata["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
        }
        if blocked {
            metadata["finalizers"] = json!(["other", FINALIZER]);
        }
        Body::new(json!({"metadata": metadata}))
    }

    /// Checks every combination of the inputs against the table of the specification.
    #[test]
    fn truth_table() {
        use Compared::{Changed, Unchanged, Unhandled};
        use Sighting::{Initial, Later};
        let events = [
            EventType::Listed,
            EventType::Added,
            EventType::Modified,
            EventType::Deleted,
        ];
        let flags = [(false, false), (false, true), (true, false), (true, true)];
        for event in events {
            for (deleting, blocked) in flags {
                for compared in [Unhandled, Changed, Unchanged] {
                    for sighting in [Initial, Later] {
                        let initial = sighting == Initial;
                        let expected = match (event, deleting, blocked, compared, sighting) {
                            (EventType::Deleted, ..) => (Reason::Gone, initial),
                            (_, true, false, ..) => (Reason::Free, initial),
                            (_, true, true, ..) => (Reason::Delete, initial),
                            (_, _, _, Unhandled, _) => (Reason::Create, false),
                            (_, _, _, Unchanged, Initial) => (Reason::Resume, true),
                            (_, _, _, Unchanged, Later) => (Reason::Noop, false),
                            (_, _, _, Changed, _) => (Reason::Update, initial),
                        };
                        let body = body(deleting, blocked);
                        let detected = detect(event, &body, FINALIZER, compared, sighting);
                        assert_eq!(
                            (detected.reason, detected.initial),
                            expected,
                            "{event:?} deleting={deleting} blocked={blocked} {compared:?} {sighting:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn only_four_reasons_are_handled_and_have_titles() {
        let titles = [
            (Reason::Create, Some("creation")),
            (Reason::Update, Some("updating")),
            (Reason::Delete, Some("deletion")),
            (Reason::Resume, Some("resuming")),
            (Reason::Noop, None),
            (Reason::Free, None),
            (Reason::Gone, None),
        ];
        for (reason, title) in titles {
            assert_eq!(reason.title(), title);
            assert_eq!(reason.is_handled(), title.is_some());
            assert_eq!(Reason::parse(reason.as_str()), Some(reason));
        }
        assert_eq!(Reason::parse("other"), None);
    }

    #[test]
    fn reduced_cause_has_the_change_of_the_field_and_the_whole_body() {
        let old = json!({"spec": {"field": {"a": 1}, "other": 1}});
        let new = json!({"spec": {"field": {"a": 2}, "other": 2}});
        let cause = Cause {
            resource: Arc::new(Resource::default()),
            body: Body::new(new.clone()),
            event: Some(EventType::Modified),
            change: Some(Change {
                reason: Reason::Update,
                initial: true,
                diff: diff(&old, &new),
                old: Some(Arc::new(old)),
                new: Some(Arc::new(new.clone())),
                field: FieldPath::root(),
            }),
        };
        let reduced = cause.reduced(&FieldPath::parse("spec.field"));
        assert_eq!(*reduced.body.value(), new);
        let change = reduced.change.unwrap();
        assert_eq!((change.reason, change.initial), (Reason::Update, true));
        assert_eq!(change.old.as_deref(), Some(&json!({"a": 1})));
        assert_eq!(change.new.as_deref(), Some(&json!({"a": 2})));
        assert_eq!(change.diff.len(), 1);
        assert_eq!(change.diff[0].field, FieldPath::parse("a"));

        let absent = cause
            .reduced(&FieldPath::parse("spec.field.a.b"))
            .change
            .unwrap();
        assert_eq!((absent.old, absent.new), (None, None));
        assert!(absent.diff.is_empty());
    }
}
