//! Handlers: functions with their options.
//!
//! Frontends declare them by [`HandlerSpec`]; registries collect them. The function is a type
//! parameter and is never called here.

mod background;
mod conversion;
mod reconciliation;
mod spec;
mod webhook;

use std::any::TypeId;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

pub use background::{Cancellation, DelayFunction, InitialDelay, Timing};
pub use conversion::Conversion;
pub use reconciliation::Reconciliation;
pub use spec::{Error, HandlerSpec};
pub use webhook::{Operation, UnknownOperation, Webhook, WebhookType};

pub use crate::filter::Param;

use crate::cause::Reason;
use crate::resource::Resource;

/// The full id of a handler: the key of its progress and of its results.
pub type HandlerId = Arc<str>;

/// The identity of a function: the same function in several handlers is called once per cause and
/// id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionId {
    /// A function with its own type, as all functions and closures in Rust.
    Type(TypeId),
    /// A function with a number from its frontend.
    Number(u64),
}

/// The treatment of arbitrary errors of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorsMode {
    /// Ignored: the handler counts as succeeded.
    Ignored,
    /// Retried.
    Temporary,
    /// Permanent: the handler has failed.
    Permanent,
}

/// The limits of a handler. Unset ones do not limit, or have defaults elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retrying {
    /// The treatment of arbitrary errors; the default depends on the type of the handler.
    pub errors: Option<ErrorsMode>,
    /// The time for all attempts, from the first one on.
    pub timeout: Option<Duration>,
    /// The number of all attempts.
    pub retries: Option<u32>,
    /// The delay after arbitrary errors; by default, `settings.execution.default_backoff`.
    pub backoff: Option<Duration>,
}

/// An activity of the operator itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// Startup: no request was sent to the cluster yet.
    Startup,
    /// Cleanup: all other tasks have ended.
    Cleanup,
    /// Authentication: credentials are needed.
    Authentication,
    /// A liveness probe.
    Probe,
}

impl Activity {
    /// Returns the name in logs and arguments.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Cleanup => "cleanup",
            Self::Authentication => "authentication",
            Self::Probe => "probe",
        }
    }
}

/// The type of a handler, by the causes that it reacts to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HandlerKind {
    /// Every event of the stream.
    Event,
    /// Creations.
    Create,
    /// Changes.
    Update,
    /// Deletions.
    Delete {
        /// `true` if objects may be deleted without calling this handler.
        optional: bool,
    },
    /// Objects that existed before the operator.
    Resume {
        /// `true` if objects that are being deleted are included.
        deleted: bool,
    },
    /// Changes of a field, for any reason.
    Field,
    /// Everything that can make the state of an object differ from the desired one.
    Reconcile(Reconciliation),
    /// The causes of the parent handler.
    Sub {
        /// `true` if the parent reacts only to changes of a field.
        needs_change: bool,
    },
    /// A daemon, which runs for as long as the object matches.
    Daemon(Cancellation),
    /// A timer, which is called for as long as the object matches.
    Timer(Timing),
    /// Every version of an object, for an index.
    Index,
    /// Changes of objects that are owned by the object.
    Child,
    /// An activity of the operator.
    Activity(Activity),
    /// Admission reviews.
    Admission(WebhookType),
    /// Requests for objects in another version.
    Convert,
}

impl HandlerKind {
    /// Returns the only reason it reacts to; `None` for any.
    pub fn reason(self) -> Option<Reason> {
        match self {
            Self::Create => Some(Reason::Create),
            Self::Update => Some(Reason::Update),
            Self::Delete { .. } => Some(Reason::Delete),
            _ => None,
        }
    }

    /// Returns `true` if it handles changes, with progress records on the object.
    pub fn is_change(self) -> bool {
        match self {
            Self::Create
            | Self::Update
            | Self::Delete { .. }
            | Self::Resume { .. }
            | Self::Field
            | Self::Reconcile(_)
            | Self::Sub { .. } => true,
            Self::Event
            | Self::Daemon(_)
            | Self::Timer(_)
            | Self::Index
            | Self::Child
            | Self::Activity(_)
            | Self::Admission(_)
            | Self::Convert => false,
        }
    }

    /// Returns `true` for daemons and timers.
    pub fn is_background(self) -> bool {
        matches!(self, Self::Daemon(_) | Self::Timer(_))
    }

    /// Returns the type of its webhook, if it is an admission handler.
    pub fn webhook_type(self) -> Option<WebhookType> {
        match self {
            Self::Admission(type_) => Some(type_),
            _ => None,
        }
    }

    /// Returns `true` if objects of its resources are watched for it.
    pub fn is_watching(self) -> bool {
        self.is_for_objects() && self.webhook_type().is_none() && self != Self::Convert
    }

    /// Returns `true` if it is for objects, and requires a selector.
    pub fn is_for_objects(self) -> bool {
        !matches!(self, Self::Activity(_))
    }

    /// Returns `true` if its field, if it has one, must have changed.
    pub fn needs_field_change(self) -> bool {
        match self {
            Self::Update | Self::Field => true,
            Self::Sub { needs_change } => needs_change,
            _ => false,
        }
    }

    /// Returns `true` if objects must not be deleted before it is called, or before it has ended.
    pub fn requires_finalizer(self) -> bool {
        match self {
            Self::Delete { optional } => !optional,
            Self::Reconcile(reconciliation) => reconciliation.finalizer,
            kind => kind.is_background(),
        }
    }

    /// Returns the options of a reconcile handler.
    pub fn reconciliation(self) -> Option<Reconciliation> {
        match self {
            Self::Reconcile(reconciliation) => Some(reconciliation),
            _ => None,
        }
    }

    /// Returns the default treatment of arbitrary errors.
    pub fn default_errors(self) -> ErrorsMode {
        match self {
            Self::Event | Self::Index | Self::Child => ErrorsMode::Ignored,
            // The client waits for the response, and repeats the request.
            Self::Admission(_) | Self::Convert | Self::Activity(Activity::Probe) => {
                ErrorsMode::Permanent
            }
            _ => ErrorsMode::Temporary,
        }
    }
}

/// A function with its options.
pub struct Handler<F> {
    /// The options. The id has the suffix of the field.
    pub spec: HandlerSpec,
    /// The function.
    pub run: F,
}

impl<F> Deref for Handler<F> {
    type Target = HandlerSpec;

    fn deref(&self) -> &HandlerSpec {
        &self.spec
    }
}

impl<F> Handler<F> {
    /// Returns `true` if objects of this resource are owned by the objects of this handler.
    pub fn owns(&self, resource: &Resource) -> bool {
        self.owns.iter().any(|selector| selector.check(resource))
    }

    /// Returns `true` if callbacks of the user decide about its calls: functions in filters, or a
    /// function for the initial delay.
    pub fn has_callbacks(&self) -> bool {
        self.filters.has_callbacks()
            || matches!(self.initial_delay, Some(InitialDelay::Function(_)))
    }
}

impl<F> fmt::Debug for Handler<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.spec.fmt(f)
    }
}

/// Returns the full id of a sub-handler.
pub fn sub_id(parent: &str, own: &str) -> String {
    format!("{parent}/{own}")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const KINDS: [HandlerKind; 19] = [
        HandlerKind::Event,
        HandlerKind::Create,
        HandlerKind::Update,
        HandlerKind::Delete { optional: false },
        HandlerKind::Delete { optional: true },
        HandlerKind::Resume { deleted: false },
        HandlerKind::Field,
        HandlerKind::Sub {
            needs_change: false,
        },
        HandlerKind::Sub { needs_change: true },
        HandlerKind::Daemon(Cancellation::NONE),
        HandlerKind::Timer(Timing::ONCE),
        HandlerKind::Index,
        HandlerKind::Child,
        HandlerKind::Activity(Activity::Startup),
        HandlerKind::Admission(WebhookType::Validating),
        HandlerKind::Admission(WebhookType::Mutating),
        HandlerKind::Convert,
        HandlerKind::Reconcile(Reconciliation::PLAIN),
        HandlerKind::Reconcile(Reconciliation {
            every: None,
            finalizer: true,
        }),
    ];

    #[test]
    fn properties_of_kinds() {
        let expected = [
            // reason, change, needs change, finalizer
            (None, false, false, false),
            (Some(Reason::Create), true, false, false),
            (Some(Reason::Update), true, true, false),
            (Some(Reason::Delete), true, false, true),
            (Some(Reason::Delete), true, false, false),
            (None, true, false, false),
            (None, true, true, false),
            (None, true, false, false),
            (None, true, true, false),
            (None, false, false, true),
            (None, false, false, true),
            (None, false, false, false),
            (None, false, false, false),
            (None, false, false, false),
            (None, false, false, false),
            (None, false, false, false),
            (None, false, false, false),
            (None, true, false, false),
            (None, true, false, true),
        ];
        for (kind, expected) in KINDS.into_iter().zip(expected) {
            let actual = (
                kind.reason(),
                kind.is_change(),
                kind.needs_field_change(),
                kind.requires_finalizer(),
            );
            assert_eq!(actual, expected, "{kind:?}");
        }
        assert_eq!(HandlerKind::Event.default_errors(), ErrorsMode::Ignored);
        assert_eq!(HandlerKind::Index.default_errors(), ErrorsMode::Ignored);
        assert_eq!(HandlerKind::Child.default_errors(), ErrorsMode::Ignored);
        for kind in KINDS {
            let is_conversion = kind == HandlerKind::Convert;
            let is_admission = kind.webhook_type().is_some() || is_conversion;
            let is_probe = kind == HandlerKind::Activity(Activity::Probe);
            if is_probe || is_admission {
                assert_eq!(kind.default_errors(), ErrorsMode::Permanent, "{kind:?}");
            } else if !matches!(
                kind,
                HandlerKind::Event | HandlerKind::Index | HandlerKind::Child
            ) {
                assert_eq!(kind.default_errors(), ErrorsMode::Temporary, "{kind:?}");
            }
            let is_activity = matches!(kind, HandlerKind::Activity(_));
            assert_eq!(kind.is_for_objects(), !is_activity, "{kind:?}");
            assert_eq!(
                kind.is_watching(),
                !is_activity && !is_admission,
                "{kind:?}"
            );
            assert!(!(is_admission && kind.is_background()), "{kind:?}");
        }
    }

    #[test]
    fn ids_of_sub_handlers_start_with_that_of_the_parent() {
        assert_eq!(
            sub_id(&sub_id("parent/spec.items", "a"), "b"),
            "parent/spec.items/a/b"
        );
    }
}
