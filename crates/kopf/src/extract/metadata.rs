//! The metadata of the object: its identity, labels and annotations.

use std::fmt;
use std::ops::Deref;

use kopf_core::admission::Review;
use kopf_core::body::Body;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::object::read;
use super::{Context, Declared, Extract, FilterExtract, OptionalExtract, Rejection};
use crate::view::View;

/// `metadata` of the object.
///
/// As JSON, or deserialised into a type, such as `ObjectMeta` of `k8s-openapi`. Frequently used
/// parts are separate arguments: [`Name`](Name), [`Namespace`](Namespace),
/// [`Uid`](Uid), [`Labels`](Labels), [`Annotations`](Annotations).
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
        read("metadata", context.object("Meta")?.get("metadata")).map(Self)
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Meta")
    }
}

impl<T> FilterExtract for Meta<T> where Self: Extract {}

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

/// The labels of the object; empty if absent.
///
/// ```
/// use kopf::Labels;
/// use kopf::prelude::*;
///
/// #[kopf::on::event("pods")]
/// fn pod(labels: Labels, logger: Logger) {
///     if let Some(app) = labels.get("app") {
///         logger.info(format_args!("a pod of {app}"));
///     }
/// }
///
/// let labels = Labels::from([("app", "web")]);
/// assert_eq!(labels.get("app"), Some("web"));
/// assert_eq!(labels.iter().collect::<Vec<_>>(), [("app", "web")]);
/// ```
#[derive(Clone)]
pub struct Labels(Body);

/// The annotations of the object; empty if absent.
///
/// ```
/// use kopf::Annotations;
/// use kopf::prelude::*;
///
/// let annotations = Annotations::from([("example.com/note", "hello")]);
/// assert_eq!(annotations.get("example.com/note"), Some("hello"));
/// assert!(!annotations.contains_key("example.com/other"));
/// ```
#[derive(Clone)]
pub struct Annotations(Body);

macro_rules! texts {
    ($name:ident, $part:literal, $read:ident) => {
        impl $name {
            /// Returns the value of a key.
            pub fn get(&self, key: &str) -> Option<&str> {
                self.map().get(key)?.as_str()
            }

            /// Returns `true` if there is such a key.
            pub fn contains_key(&self, key: &str) -> bool {
                self.map().contains_key(key)
            }

            /// Returns all keys with their values, sorted by key.
            pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
                let texts = self.map().iter();
                texts.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
            }

            /// Returns the number of keys.
            pub fn len(&self) -> usize {
                self.map().len()
            }

            /// Returns `true` if there are no keys.
            pub fn is_empty(&self) -> bool {
                self.map().is_empty()
            }

            fn map(&self) -> &Map<String, Value> {
                self.0.$read()
            }
        }

        impl<K: Into<String>, V: Into<String>, const N: usize> From<[(K, V); N]> for $name {
            fn from(texts: [(K, V); N]) -> Self {
                let texts = texts
                    .into_iter()
                    .map(|(key, value)| (key.into(), Value::String(value.into())));
                let texts: Map<String, Value> = texts.collect();
                Self(Body::new(json!({"metadata": {$part: texts}})))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_map().entries(self.iter()).finish()
            }
        }

        impl Extract for $name {
            fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
                Ok(Self(context.object(stringify!($name))?.clone()))
            }

            fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
                declared.objects(stringify!($name))
            }
        }

        impl FilterExtract for $name {}
    };
}

texts!(Labels, "labels", labels);
texts!(Annotations, "annotations", annotations);
