//! The event itself, as it came.

use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::handler::HandlerKind;

use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection};

/// What came from the API: the type of the event and the raw object. For handlers of `on::event`.
///
/// ```
/// use kopf::prelude::*;
/// use kopf::{Event, EventType};
///
/// #[kopf::on::event("pods")]
/// fn watched(event: Event, logger: Logger) {
///     match event.event_type {
///         EventType::Listed => logger.info("It was there when the operator started."),
///         EventType::Deleted => logger.info("It is gone."),
///         _ => logger.info(event.kind().unwrap_or_default()),
///     }
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Event {
    /// What it is about.
    pub event_type: EventType,
    /// The object in the event.
    pub object: Body,
}

impl Event {
    /// An event, to call a handler with in a test.
    pub fn new(event_type: EventType, object: impl Into<Body>) -> Self {
        Self {
            event_type,
            object: object.into(),
        }
    }

    /// The type as the API calls it: `ADDED`, `MODIFIED`, `DELETED`; none for those that were
    /// listed rather than watched.
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
