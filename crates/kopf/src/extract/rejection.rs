//! Why an argument of a handler cannot be made.

use std::fmt::Display;

/// Why an argument of a handler cannot be made.
///
/// Handlers which ask for `Result<T, Rejection>` get it; for others, it is a permanent error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Rejection {
    /// The object has no such part.
    #[error("the object has no {part}; if it can be like that, ask for an Option")]
    Absent {
        /// What is missing, as in `namespace`.
        part: &'static str,
    },
    /// A part of the object is not as the type of the argument wants it.
    #[error("{path}: {message}")]
    Malformed {
        /// Where in the object, as in `spec.size`.
        path: String,
        /// What is wrong there.
        message: String,
    },
    /// There is no object: this is a handler of the operator's own life.
    #[error("{argument} is for handlers of objects only")]
    NoObject {
        /// The argument that makes sense for objects only.
        argument: &'static str,
    },
    /// The settings are fixed when the operator has started up.
    #[error("SettingsMut is for handlers of on::startup only; Settings is for all")]
    NoStartup,
    /// There is no connection yet: it comes after the handler.
    #[error(
        "Client is not for handlers of on::{activity}: the operator is not connected yet; \
         give them a client of your own as State<Client>"
    )]
    NoConnection {
        /// What the handler is for.
        activity: &'static str,
    },
    /// Nothing has changed: this is no handler of changes.
    #[error("{argument} is for handlers of create, update, delete, resume, field only")]
    NoChange {
        /// The argument that makes sense for changes only.
        argument: &'static str,
    },
    /// Nothing has changed, and nobody wants to change anything.
    #[error(
        "{argument} is for handlers of create, update, delete, resume, field, validate, mutate only"
    )]
    NoDifference {
        /// The argument that makes sense there only.
        argument: &'static str,
    },
    /// No child of the object has changed: this is a handler of something else.
    #[error("Child is for handlers of on::child only")]
    NoChild,
    /// Nobody asks for admission: this is a handler of something else.
    #[error("{argument} is for handlers of on::validate and on::mutate only")]
    NoAdmission {
        /// The argument that makes sense there only.
        argument: &'static str,
    },
    /// It does not run beside an object: this is neither a daemon nor a timer.
    #[error("{argument} is for daemons and timers only")]
    NotBackground {
        /// The argument that makes sense there only.
        argument: &'static str,
    },
    /// There is no event: this is no handler of events.
    #[error("Event is for handlers of on::event only")]
    NoEvent,
    /// Filters are asked before there is a call of a handler.
    #[error("{argument} is for handlers only, not for filters")]
    NoCall {
        /// The argument that makes sense in handlers only.
        argument: &'static str,
    },
    /// The operator was built without it.
    #[error(
        "there is no state of the type {type_name}: give it to the operator, \
         Operator::builder().state(…)"
    )]
    NoState {
        /// The type that is asked for.
        type_name: &'static str,
    },
    /// The operator has no such index.
    #[error(
        "there is no index '{id}': declare it by #[kopf::index(…)] or \
         Operator::builder().handler(kopf::index(…)); {known}"
    )]
    NoIndex {
        /// The index that is asked for.
        id: &'static str,
        /// Which ones there are.
        known: String,
    },
    /// The index has entries of other types.
    #[error("the index '{id}' has entries of the type {kept}, not {wanted}")]
    OtherIndex {
        /// The index that is asked for.
        id: &'static str,
        /// The types of entries that are asked for.
        wanted: &'static str,
        /// The types of entries that are there.
        kept: &'static str,
    },
    /// The operator was built without it, and there is no default.
    #[error(
        "there is no memo of the type {type_name}, and the type has no default: give it to the \
         operator, Operator::builder().memo(…)"
    )]
    NoMemo {
        /// The type that is asked for.
        type_name: &'static str,
    },
    /// The handler was declared without one.
    #[error("the handler has no param: declare it with param = …")]
    NoParam,
    /// The handler was declared with a param of another type.
    #[error("the param of the handler is not of the type {type_name}")]
    OtherParam {
        /// The type that is asked for.
        type_name: &'static str,
    },
    /// Whatever an extractor of somebody else has to say.
    #[error("{0}")]
    Other(String),
}

impl Rejection {
    /// A rejection with a message of one's own.
    pub fn other(message: impl Display) -> Self {
        Self::Other(message.to_string())
    }
}
