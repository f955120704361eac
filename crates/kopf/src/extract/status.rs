//! The status of the object.

use std::ops::Deref;

use serde::de::DeserializeOwned;

use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection, View, typed};

/// `status` of the object.
///
/// As JSON, or deserialised into a type. An absent status is an empty one.
///
/// ```
/// use kopf::Status;
/// use kopf::prelude::*;
///
/// #[kopf::on::update("kopfexamples")]
/// fn changed(Status(status): Status, logger: Logger) {
///     if status["ready"] == true {
///         logger.info("It was ready before the change.");
///     }
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Status<T = View>(pub T);

impl<T> Deref for Status<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl Extract for Status {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(Self(View::status(context.object("Status")?)))
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Status")
    }
}

impl<T: DeserializeOwned> Extract for Status<T> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        typed::read("status", View::status(context.object("Status")?).value()).map(Self)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Status")
    }
}

impl<T> OptionalExtract for Status<T>
where
    Self: Extract,
{
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        if context.body().get("status").is_null() {
            return Ok(None);
        }
        Self::extract(context).map(Some)
    }
}

impl<T> FilterExtract for Status<T> where Self: Extract {}
