//! Labels and annotations of the object.

use std::fmt;

use kopf_core::body::Body;
use serde_json::{Map, Value, json};

use super::{Context, Declared, Extract, FilterExtract, Rejection};

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
