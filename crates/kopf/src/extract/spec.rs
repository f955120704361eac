//! The spec of the object.

use std::ops::Deref;

use serde::de::DeserializeOwned;

use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection, View, typed};

/// `spec` of the object.
///
/// As JSON, or deserialised into a type. An absent spec is an empty one.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn dynamic(Spec(spec): Spec) -> kopf::Result<String> {
///     let size = spec["size"].as_str().ok_or_else(|| kopf::permanent("size must be set"))?;
///     Ok(size.to_owned())
/// }
///
/// #[kopf::schema]
/// struct Volume { size: String }
///
/// // Objects with another spec fail permanently, with the reason.
/// #[kopf::on::create("kopfexamples")]
/// fn typed(Spec(volume): Spec<Volume>) -> String {
///     volume.size
/// }
///
/// assert_eq!(dynamic(Spec(json!({"size": "1G"}).into())).unwrap(), "1G");
/// assert_eq!(typed(Spec(Volume { size: "1G".into() })), "1G");
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Spec<T = View>(pub T);

impl<T> Deref for Spec<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl Extract for Spec {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        Ok(Self(View::spec(context.object("Spec")?)))
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Spec")
    }
}

impl<T: DeserializeOwned> Extract for Spec<T> {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        typed::read("spec", View::spec(context.object("Spec")?).value()).map(Self)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Spec")
    }
}

impl<T> OptionalExtract for Spec<T>
where
    Self: Extract,
{
    fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
        if context.body().get("spec").is_null() {
            return Ok(None);
        }
        Self::extract(context).map(Some)
    }
}

impl<T> FilterExtract for Spec<T> where Self: Extract {}
