//! Read-only JSON views of parts of objects, without copies.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use kopf_core::body::Body;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// A part of an object as read-only JSON. Cheap to clone.
///
/// It dereferences to [`Value`]: `view["items"][0]`, `view.get("field")`, `view.as_str()`. An
/// absent part is null.
///
/// ```
/// use kopf::View;
/// use kopf::prelude::*;
///
/// let spec = View::from(json!({"field": "value", "items": ["a", "b"]}));
/// assert_eq!(spec["field"], "value");
/// assert_eq!(spec["items"][1], "b");
/// assert_eq!(spec.get("unknown"), None);
/// assert_eq!(spec.to_string(), r#"{"field":"value","items":["a","b"]}"#);
/// ```
#[derive(Clone)]
pub struct View(Source);

#[derive(Clone)]
enum Source {
    Shared(Arc<Value>),
    Spec(Body),
    Status(Body),
    Metadata(Body),
}

static NULL: Value = Value::Null;

impl View {
    pub(crate) fn spec(body: &Body) -> Self {
        Self(Source::Spec(body.clone()))
    }

    pub(crate) fn status(body: &Body) -> Self {
        Self(Source::Status(body.clone()))
    }

    pub(crate) fn metadata(body: &Body) -> Self {
        Self(Source::Metadata(body.clone()))
    }

    pub(crate) fn shared(value: Option<&Arc<Value>>) -> Self {
        Self(Source::Shared(value.map(Arc::clone).unwrap_or_default()))
    }

    /// Returns the JSON.
    pub fn value(&self) -> &Value {
        match &self.0 {
            Source::Shared(value) => value,
            Source::Spec(body) => body.spec(),
            Source::Status(body) => body.status(),
            Source::Metadata(body) => body.get("metadata"),
        }
    }

    /// Returns a copy of the JSON.
    pub fn to_value(&self) -> Value {
        self.value().clone()
    }
}

impl Deref for View {
    type Target = Value;

    fn deref(&self) -> &Value {
        self.value()
    }
}

impl AsRef<Value> for View {
    fn as_ref(&self) -> &Value {
        self.value()
    }
}

impl Default for View {
    fn default() -> Self {
        Self::from(NULL.clone())
    }
}

impl From<Value> for View {
    fn from(value: Value) -> Self {
        Self(Source::Shared(Arc::new(value)))
    }
}

impl From<View> for Value {
    fn from(view: View) -> Self {
        match view.0 {
            Source::Shared(value) => Arc::unwrap_or_clone(value),
            _ => view.to_value(),
        }
    }
}

impl<'a> From<&'a View> for Cow<'a, Value> {
    fn from(view: &'a View) -> Self {
        Cow::Borrowed(view.value())
    }
}

impl<T: ?Sized> PartialEq<T> for View
where
    Value: PartialEq<T>,
{
    fn eq(&self, other: &T) -> bool {
        self.value() == other
    }
}

impl Serialize for View {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl fmt::Display for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parts_are_viewed_without_copies() {
        let body = Body::new(json!({"metadata": {"name": "x"}, "spec": {"a": 1}}));
        assert_eq!(View::spec(&body)["a"], 1);
        assert_eq!(View::metadata(&body)["name"], "x");
        assert!(std::ptr::eq(View::spec(&body).value(), body.spec()));
    }

    #[test]
    fn absent_parts_are_empty() {
        let body = Body::new(json!({}));
        assert_eq!(View::spec(&body), json!({}));
        assert_eq!(View::status(&body), json!({}));
        assert_eq!(View::spec(&body)["any"]["thing"], Value::Null);
        assert_eq!(View::shared(None), Value::Null);
    }

    #[test]
    fn views_are_compared_and_converted_as_json() {
        let view = View::from(json!("text"));
        assert_eq!(view, "text");
        assert_eq!(Value::from(view.clone()), json!("text"));
        assert_eq!(json!({"x": view}), json!({"x": "text"}));
    }
}
