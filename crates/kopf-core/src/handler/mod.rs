//! What a handler is: a function with everything that is declared about it.
//!
//! Declared by the fronts through [`HandlerSpec`], collected in registries. The function itself is
//! a type parameter: it is carried, but never called here.

mod background;
mod conversion;
mod spec;
mod webhook;

use std::any::{Any, TypeId};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use background::{Cancellation, DelayFunction, InitialDelay, Timing};
pub use conversion::Conversion;
pub use spec::{Error, HandlerSpec};
pub use webhook::Webhook;

use crate::admission::WebhookType;
use crate::cause::Reason;
use crate::filter::Filters;
use crate::resource::Resource;
use crate::selector::Selector;

/// The full id of a handler: the key of its progress and of its results.
pub type HandlerId = Arc<str>;

/// Whatever the user has attached to a handler.
pub type Param = Arc<dyn Any + Send + Sync>;

/// Which function it is: the same function in several handlers is called once per cause and id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FunctionId {
    /// A function with a type of its own, as all functions and closures in Rust have.
    Type(TypeId),
    /// A function that its front has numbered.
    Number(u64),
}

/// What arbitrary errors of a handler mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorsMode {
    /// Nothing: the handler has succeeded.
    Ignored,
    /// It is to be tried again.
    Temporary,
    /// The handler has failed for good.
    Permanent,
}

/// The limits of a handler. Unset ones do not limit, or have defaults elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retrying {
    /// What arbitrary errors mean; by default, it depends on the kind of the handler.
    pub errors: Option<ErrorsMode>,
    /// The time for all attempts together, from the first sight of the handler.
    pub timeout: Option<Duration>,
    /// The number of all attempts together.
    pub retries: Option<u32>,
    /// The delay after arbitrary errors; by default, `settings.execution.default_backoff`.
    pub backoff: Option<Duration>,
}

/// What happens to the operator itself, and not to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Activity {
    /// It starts: nothing was asked of the cluster yet.
    Startup,
    /// It ends: nothing else is running any more.
    Cleanup,
    /// It needs credentials for the cluster.
    Authentication,
    /// Somebody asks whether it lives.
    Probe,
}

impl Activity {
    /// The name in logs and arguments.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Startup => "startup",
            Self::Cleanup => "cleanup",
            Self::Authentication => "authentication",
            Self::Probe => "probe",
        }
    }
}

/// What a handler reacts to.
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
        /// Whether objects may vanish without this handler being called.
        optional: bool,
    },
    /// Objects that were there before the operator.
    Resume {
        /// Whether also those that are being deleted.
        deleted: bool,
    },
    /// Changes of a field, whatever their reason.
    Field,
    /// What the parent handler reacts to.
    Sub {
        /// Whether the parent reacts to changes of a field only.
        needs_change: bool,
    },
    /// Nothing: it runs beside the object for as long as that matches.
    Daemon(Cancellation),
    /// Time, again and again, for as long as the object matches.
    Timer(Timing),
    /// Every version of an object, to keep an index of all of them.
    Index,
    /// Changes of objects that are owned by the object.
    Child,
    /// The life of the operator.
    Activity(Activity),
    /// What the API server asks before it stores an object.
    Admission(WebhookType),
    /// Requests for objects in another version.
    Convert,
}

impl HandlerKind {
    /// The only reason it reacts to; none if to any.
    pub fn reason(self) -> Option<Reason> {
        match self {
            Self::Create => Some(Reason::Create),
            Self::Update => Some(Reason::Update),
            Self::Delete { .. } => Some(Reason::Delete),
            _ => None,
        }
    }

    /// Whether it handles changes, with progress on the object.
    pub fn is_change(self) -> bool {
        match self {
            Self::Create
            | Self::Update
            | Self::Delete { .. }
            | Self::Resume { .. }
            | Self::Field
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

    /// Whether it runs beside the object, and not because of its changes.
    pub fn is_background(self) -> bool {
        matches!(self, Self::Daemon(_) | Self::Timer(_))
    }

    /// The type of its webhook, if it is for admission.
    pub fn webhook_type(self) -> Option<WebhookType> {
        match self {
            Self::Admission(type_) => Some(type_),
            _ => None,
        }
    }

    /// Whether objects of its kinds are watched for it.
    pub fn is_watching(self) -> bool {
        self.is_for_objects() && self.webhook_type().is_none() && self != Self::Convert
    }

    /// Whether it is for objects, and has to say for which.
    pub fn is_for_objects(self) -> bool {
        !matches!(self, Self::Activity(_))
    }

    /// Whether, if it has a field, that field must have changed.
    pub fn needs_field_change(self) -> bool {
        match self {
            Self::Update | Self::Field => true,
            Self::Sub { needs_change } => needs_change,
            _ => false,
        }
    }

    /// Whether objects must not vanish before it is called, or before it has ended.
    pub fn requires_finalizer(self) -> bool {
        self == Self::Delete { optional: false } || self.is_background()
    }

    /// What arbitrary errors mean if the handler does not say.
    pub fn default_errors(self) -> ErrorsMode {
        match self {
            Self::Event | Self::Index | Self::Child => ErrorsMode::Ignored,
            // Who asks waits for the answer, and asks again.
            Self::Admission(_) | Self::Convert | Self::Activity(Activity::Probe) => {
                ErrorsMode::Permanent
            }
            _ => ErrorsMode::Temporary,
        }
    }
}

/// A function with everything that is declared about it.
pub struct Handler<F> {
    /// The full id, with the suffix of the field.
    pub id: HandlerId,
    /// Which function it is.
    pub function: FunctionId,
    /// What it reacts to.
    pub kind: HandlerKind,
    /// The kinds of objects it is for; none in sub-handlers, which are for the parent's object.
    pub selector: Option<Selector>,
    /// The resources of owned objects. Their changes wake change handlers that wait for another
    /// attempt; handlers of children are called with them.
    pub owns: Vec<Selector>,
    /// Which of the objects and changes it is for.
    pub filters: Filters,
    /// Its limits.
    pub retrying: Retrying,
    /// How long to wait before the first call; for daemons and timers.
    pub initial_delay: Option<InitialDelay>,
    /// What the API server asks it about; for admission.
    pub webhook: Webhook,
    /// The versions that it converts between; for conversions.
    pub conversion: Option<Conversion>,
    /// What the user has attached to it.
    pub param: Option<Param>,
    /// The function.
    pub run: F,
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
        f.debug_struct("Handler")
            .field("id", &self.id)
            .field("kind", &self.kind)
            .field("selector", &self.selector)
            .field("filters", &self.filters)
            .field("retrying", &self.retrying)
            .finish_non_exhaustive()
    }
}

/// The full id of a sub-handler.
pub fn sub_id(parent: &str, own: &str) -> String {
    format!("{parent}/{own}")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const KINDS: [HandlerKind; 17] = [
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
    fn ids_of_sub_handlers_begin_with_the_parents() {
        assert_eq!(
            sub_id(&sub_id("parent/spec.items", "a"), "b"),
            "parent/spec.items/a/b"
        );
    }
}
