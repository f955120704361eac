//! The raw event.

use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::handler::HandlerKind;

use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection};

/// The raw event: its type and the object. For handlers of `on::event`.
///
/// ```
/// use kopf::prelude::*;
/// use kopf::{Event, EventType};
///
/// #[kopf::on::event("pods")]
/// fn watched(event: Event, logger: Logger) {
///     match event.event_type {
///         EventType::Listed => logger.info("It existed when the operator started."),
///         EventType::Deleted => logger.info("It is deleted."),
///         _ => logger.info(event.kind().unwrap_or_default()),
///     }
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Event {
    /// The type of the event.
    pub event_type: EventType,
    /// The object in the event.
    pub object: Body,
}

impl Event {
    /// Creates an event, for tests of handlers.
    pub fn new(event_type: EventType, object: impl Into<Body>) -> Self {
        Self {
            event_type,
            object: object.into(),
        }
    }

    /// Returns the type as in the API: `ADDED`, `MODIFIED`, `DELETED`; `None` for listed objects.
    pub fn kind(&self) -> Option<&'static str> {
        self.event_type.as_str()
    }
}

impl Extract for Event {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Self::extract_optional(context)?.ok_or(Rejection::NoEvent)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        if declared.kind == HandlerKind::Event {
            Ok(())
        } else {
            Err(Rejection::NoEvent)
        }
    }
}

impl OptionalExtract for Event {
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        let event = context.cause().and_then(|cause| cause.event);
        Ok(event.map(|event_type| Self::new(event_type, context.body().clone())))
    }
}

impl FilterExtract for Event {}
