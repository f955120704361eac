//! The name, namespace and uid of the object.

use std::fmt;
use std::ops::Deref;

use kopf_core::admission::Review;

use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection};

/// The name of the object.
///
/// ```
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn hello(Name(name): Name) -> String {
///     format!("hello, {name}")
/// }
///
/// assert_eq!(hello(Name("example-1".into())), "hello, example-1");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(pub String);

/// The namespace of the object. Use `Option<Namespace>` for cluster-scoped resources.
///
/// ```
/// use kopf::Namespace;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn namespaced(Namespace(namespace): Namespace, logger: Logger) {
///     logger.info(format_args!("in {namespace}"));
/// }
///
/// #[kopf::on::event(kopf::EVERYTHING)]
/// fn any(namespace: Option<Namespace>) -> kopf::Result<()> {
///     let _ = namespace;
///     Ok(())
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace(pub String);

/// The unique identifier of the object. A later object of the same name has another one.
///
/// ```
/// use kopf::Uid;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// fn create_fn(Uid(uid): Uid) -> String {
///     format!("volume-{uid}")
/// }
///
/// assert_eq!(create_fn(Uid("8f503325".into())), "volume-8f503325");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(pub String);

macro_rules! identity {
    ($name:ident, $part:literal, $read:expr) => {
        impl Extract for $name {
            fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
                context.object(stringify!($name))?;
                Self::extract_optional(context)?.ok_or(Rejection::Absent { part: $part })
            }

            fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
                declared.objects(stringify!($name))
            }
        }

        impl OptionalExtract for $name {
            fn extract_optional(context: &Context<'_>) -> Result<Option<Self>, Rejection> {
                let read: fn(&Context<'_>) -> Option<String> = $read;
                Ok(read(context).map(Self))
            }
        }

        impl FilterExtract for $name {}

        impl Deref for $name {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

/// Objects of `CONNECT` requests, such as `pods/exec`, have no metadata: the request names them.
fn from_review(context: &Context<'_>, part: fn(&Review) -> Option<&String>) -> Option<String> {
    let admission = context.admission("Name").ok()?;
    part(&admission.review).cloned()
}

identity!(Name, "name", |context| {
    let own = context.body().name().map(str::to_owned);
    own.or_else(|| from_review(context, |review| review.name.as_ref()))
});
identity!(Namespace, "namespace", |context| {
    let own = context.body().namespace().map(str::to_owned);
    own.or_else(|| from_review(context, |review| review.namespace.as_ref()))
});
identity!(Uid, "uid", |context| context
    .body()
    .uid()
    .map(str::to_owned));
