//! The change of the object: its event, reason, old and new states.

use kopf_core::body::Body;
use kopf_core::cause::{EventType, Reason};
use kopf_core::diff::Diff;
use kopf_core::handler::HandlerKind;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::object::read;
use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection};
use crate::view::View;

/// The raw event: its type and the object. For handlers of `on::event`.
///
/// ```
/// use kopf::prelude::*;
/// use kopf::{EventType, WatchEvent};
///
/// #[kopf::on::event("pods")]
/// fn watched(event: WatchEvent, logger: Logger) {
///     match event.event_type {
///         EventType::Listed => logger.info("It existed when the operator started."),
///         EventType::Deleted => logger.info("It is deleted."),
///         _ => logger.info(event.kind().unwrap_or_default()),
///     }
/// }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WatchEvent {
    /// The type of the event.
    pub event_type: EventType,
    /// The object in the event.
    pub object: Body,
}

impl WatchEvent {
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

impl Extract for WatchEvent {
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

impl OptionalExtract for WatchEvent {
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        let event = context.cause().and_then(|cause| cause.event);
        Ok(event.map(|event_type| Self::new(event_type, context.body().clone())))
    }
}

impl FilterExtract for WatchEvent {}

impl Extract for Reason {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(context.changed("Reason")?.reason)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.changes("Reason")
    }
}

impl OptionalExtract for Reason {
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        Ok(context.change().map(|change| change.reason))
    }
}

impl FilterExtract for Reason {}

impl Extract for Diff {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(context.difference("Diff")?.diff().clone())
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.differences("Diff")
    }
}

impl OptionalExtract for Diff {
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        Ok(Self::extract(context).ok())
    }
}

impl FilterExtract for Diff {}

/// The object when it was last handled; with `field`, the old value of the field.
///
/// As JSON, or deserialised into a type. It is null (or `None` with `Option<Old>`) if there was no
/// value: when the object is created, or the field is added.
///
/// In admission handlers, it is the whole stored object, even with `field`.
///
/// ```
/// use kopf::prelude::*;
/// use kopf::{New, Old};
///
/// #[kopf::on::update("kopfexamples", field = "spec.size")]
/// fn resized(Old(old): Old<Option<String>>, New(new): New<Option<String>>, logger: Logger) {
///     logger.info(format_args!("from {old:?} to {new:?}"));
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Old<T = View>(pub T);

/// The current object; with `field`, the new value of the field.
///
/// As JSON, or deserialised into a type. It is null (or `None` with `Option<New>`) if there is no
/// value: when the field is removed.
///
/// Like [`Old`], it is the essence, without the status and most of the metadata. In admission
/// handlers, it is the whole requested object, and null for deletions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct New<T = View>(pub T);

macro_rules! side {
    ($name:ident, $argument:literal, $part:literal, $side:ident) => {
        impl Extract for $name {
            fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
                let side = context.difference($argument)?.$side();
                Ok(Self(View::shared(side)))
            }

            fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
                declared.differences($argument)
            }
        }

        impl<T: DeserializeOwned> Extract for $name<T> {
            fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
                let side = context.difference($argument)?.$side();
                read($part, side.map_or(&Value::Null, |value| &**value)).map(Self)
            }

            fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
                declared.differences($argument)
            }
        }

        impl<T> OptionalExtract for $name<T>
        where
            Self: Extract,
        {
            fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
                match context.difference($argument) {
                    Ok(difference) if difference.$side().is_some() => {
                        Self::extract(context).map(Some)
                    }
                    _ => Ok(None),
                }
            }
        }

        impl<T> FilterExtract for $name<T> where Self: Extract {}
    };
}

side!(Old, "Old", "old", old_side);
side!(New, "New", "new", new_side);
