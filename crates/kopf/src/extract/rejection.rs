//! Errors of extractors.

use std::fmt::Display;

/// The reason why an argument of a handler is not available.
///
/// Arguments of the type `Result<T, Rejection>` receive it. In other handlers, it is a permanent
/// error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The object has no such part.
    #[error("the object has no {part}; use an Option to accept this")]
    Absent {
        /// The missing part, as in `namespace`.
        part: &'static str,
    },
    /// A part of the object does not fit the type of the argument.
    #[error("{path}: {message}")]
    Malformed {
        /// The path in the object, as in `spec.size`.
        path: String,
        /// The mismatch.
        message: String,
    },
    /// The handler is an activity without an object.
    #[error("{argument} is for handlers of objects only")]
    NoObject {
        /// The argument.
        argument: &'static str,
    },
    /// The settings are fixed after the startup.
    #[error("SettingsMut is for handlers of on::startup only; Settings is for all")]
    NoStartup,
    /// The operator connects after this handler.
    #[error(
        "Client is not for handlers of on::{activity}: the operator is not connected yet; \
         pass another client as State<Client>"
    )]
    NoConnection {
        /// The activity.
        activity: &'static str,
    },
    /// The handler is not called for changes.
    #[error("{argument} is for handlers of create, update, delete, resume, field only")]
    NoChange {
        /// The argument.
        argument: &'static str,
    },
    /// The handler is called neither for changes nor for admission.
    #[error(
        "{argument} is for handlers of create, update, delete, resume, field, validate, mutate only"
    )]
    NoDifference {
        /// The argument.
        argument: &'static str,
    },
    /// The handler is not called for children.
    #[error("Child is for handlers of on::child only")]
    NoChild,
    /// The handler is not called to reconcile objects.
    #[error("Triggers is for handlers of on::reconcile only")]
    NoReconciliation,
    /// The handler is not called for admission.
    #[error("{argument} is for handlers of on::validate and on::mutate only")]
    NoAdmission {
        /// The argument.
        argument: &'static str,
    },
    /// The handler is neither a daemon nor a timer.
    #[error("{argument} is for daemons and timers only")]
    NotBackground {
        /// The argument.
        argument: &'static str,
    },
    /// The handler is not called for events.
    #[error("WatchEvent is for handlers of on::event only")]
    NoEvent,
    /// Filters have no call of a handler.
    #[error("{argument} is for handlers only, not for filters")]
    NoCall {
        /// The argument.
        argument: &'static str,
    },
    /// The operator has no state of this type.
    #[error(
        "there is no state of the type {type_name}: add it with \
         Operator::builder().state(…)"
    )]
    NoState {
        /// The type of the argument.
        type_name: &'static str,
    },
    /// The operator has no such index.
    #[error(
        "there is no index '{id}': declare it by #[kopf::index(…)] or \
         Operator::builder().handler(kopf::index(…)); {known}"
    )]
    NoIndex {
        /// The index.
        id: &'static str,
        /// The existing indices.
        known: String,
    },
    /// The index has entries of other types.
    #[error("the index '{id}' has entries of the type {kept}, not {wanted}")]
    OtherIndex {
        /// The index.
        id: &'static str,
        /// The entry types of the argument.
        wanted: &'static str,
        /// The entry types of the index.
        kept: &'static str,
    },
    /// The operator has no memo of this type, and the type has no default.
    #[error(
        "there is no memo of the type {type_name}, and the type has no default: add it with \
         Operator::builder().memo(…)"
    )]
    NoMemo {
        /// The type of the argument.
        type_name: &'static str,
    },
    /// The handler has no `param`.
    #[error("the handler has no param: declare it with param = …")]
    NoParam,
    /// The `param` of the handler has another type.
    #[error("the param of the handler is not of the type {type_name}")]
    OtherParam {
        /// The type of the argument.
        type_name: &'static str,
    },
    /// An error of a custom extractor.
    #[error("{0}")]
    Other(String),
}

impl Rejection {
    /// Creates a rejection with a custom message.
    pub fn other(message: impl Display) -> Self {
        Self::Other(message.to_string())
    }
}
