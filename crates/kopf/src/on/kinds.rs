//! Kinds of handlers as types, with different options: `HandlerBuilder<kinds::Create>`.

use kopf_core::handler::HandlerKind;

pub use super::activities::{Cleanup, Login, Probe, Startup};
pub use super::admission::{ForAdmission, Mutate, Validate};
pub use super::children::Child;
pub use super::conversion::Convert;
pub use super::reconciliation::Reconcile;

/// A kind of handlers.
pub trait Kind {
    /// The kind for the engine, without options.
    #[doc(hidden)]
    const KIND: HandlerKind;
}

/// A kind of handlers for objects, with filters: all but activities.
#[diagnostic::on_unimplemented(message = "activities have no object: filters are not available")]
pub trait ForObjects: Kind {}

/// A kind of handlers that are retried: all but those for events and admission.
#[diagnostic::on_unimplemented(
    message = "handlers of `on::event`, `on::child`, `on::validate` and `on::mutate` are called once: they have no retry options"
)]
pub trait Retried: Kind {}

/// A kind of handlers whose retries can be triggered by owned objects.
#[diagnostic::on_unimplemented(
    message = "only `on::create`, `on::update`, `on::delete`, `on::resume`, `on::field` and `on::reconcile` depend on owned objects",
    label = "this handler has no `owns`"
)]
pub trait RetriedByChildren: Retried {}

/// A kind of handlers that compare the old and the new value of a field.
#[diagnostic::on_unimplemented(
    message = "only `on::update`, `on::field` and sub-handlers of those compare an old and a new value",
    label = "this handler has `value`, but neither `old` nor `new`"
)]
pub trait ForUpdates: Kind {}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident = $value:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $kind;

        impl Kind for $kind {
            const KIND: HandlerKind = $value;
        }

        impl ForObjects for $kind {}
    )*};
}

kinds! {
    /// Handlers of [`on::create`](super::create()).
    Create = HandlerKind::Create;
    /// Handlers of [`on::update`](super::update()).
    Update = HandlerKind::Update;
    /// Handlers of [`on::delete`](super::delete()).
    Delete = HandlerKind::Delete { optional: false };
    /// Handlers of [`on::resume`](super::resume()).
    Resume = HandlerKind::Resume { deleted: false };
    /// Handlers of [`on::field`](super::field()).
    Field = HandlerKind::Field;
    /// Handlers of [`on::event`](super::event()).
    Event = HandlerKind::Event;
    /// Functions of [`kopf::index`](crate::index()).
    Index = HandlerKind::Index;
    /// Sub-handlers: [`on::subhandler`](super::subhandler).
    Sub = HandlerKind::Sub { needs_change: true };
}

impl Retried for Create {}
impl Retried for Update {}
impl Retried for Delete {}
impl Retried for Resume {}
impl Retried for Field {}
impl Retried for Index {}
impl Retried for Sub {}

impl ForUpdates for Update {}
impl ForUpdates for Field {}
impl ForUpdates for Sub {}
