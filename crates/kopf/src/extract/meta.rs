//! The metadata of the object.

use std::ops::Deref;

use serde::de::DeserializeOwned;

use super::{Context, Declared, Extract, FilterExtract, Rejection, View, typed};

/// `metadata` of the object.
///
/// As JSON, or deserialised into a type, such as `ObjectMeta` of `k8s-openapi`. Frequently used
/// parts are separate arguments: [`Name`](super::Name), [`Namespace`](super::Namespace),
/// [`Uid`](super::Uid), [`Labels`](super::Labels), [`Annotations`](super::Annotations).
///
/// ```
/// use kopf::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
/// use kopf::Meta;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn dynamic(Meta(meta): Meta, logger: Logger) {
///     logger.info(&meta["creationTimestamp"]);
/// }
///
/// #[kopf::on::create("kopfexamples")]
/// fn typed(Meta(meta): Meta<ObjectMeta>) -> Option<i64> {
///     meta.generation
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Meta<T = View>(pub T);

impl<T> Deref for Meta<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl Extract for Meta {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(Self(View::metadata(context.object("Meta")?)))
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Meta")
    }
}

impl<T: DeserializeOwned> Extract for Meta<T> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        typed::read("metadata", context.object("Meta")?.get("metadata")).map(Self)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Meta")
    }
}

impl<T> FilterExtract for Meta<T> where Self: Extract {}
