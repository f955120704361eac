//! Kubernetes events about objects, posted by handlers and shown by `kubectl describe`.

#[cfg(any(feature = "cli", feature = "otel"))]
mod layer;

use std::any::type_name;
use std::fmt::{self, Display};
use std::sync::Arc;

use kopf_core::reference::ObjectReference;
use kopf_core::sync::Mutex;
use kopf_engine::posting::Poster;

use crate::extract::{Context, Declared, Extract, Rejection};
use crate::objects::{ObjectError, Referred};

#[cfg(any(feature = "cli", feature = "otel"))]
pub use layer::events_layer;
#[cfg(feature = "cli")]
pub(crate) use layer::is_library;

/// Kubernetes events about the handled object, or [about](Self::about) others. Cheap to clone.
///
/// They are posted in the background and never fail a handler. With `settings.posting.enabled` off,
/// they are dropped.
///
/// ```
/// use kopf::Events;
/// use kopf::prelude::*;
///
/// #[kopf::on::create("kopfexamples")]
/// async fn create_fn(events: Events) {
///     events.post("SomeType", "SomeReason", "Some message");
///     events.info("SomeReason", "Some message");
///     events.warn("SomeReason", "Some message");
///     if let Err(error) = "one".parse::<u32>() {
///         events.exception("SomeReason", "Cannot parse:", &error);
///     }
/// }
/// ```
///
/// In tests of handlers, [`Events::default`] collects them:
///
/// ```
/// use kopf::Events;
/// use kopf::prelude::*;
///
/// fn greet(Name(name): Name, events: Events) {
///     events.info("Greeted", format_args!("Hello, {name}!"));
/// }
///
/// let events = Events::default();
/// greet(Name("world".into()), events.clone());
/// assert_eq!(events.list()[0].message, "Hello, world!");
/// ```
#[derive(Clone)]
pub struct Events {
    objects: Arc<[ObjectReference]>,
    destination: Destination,
}

#[derive(Clone)]
enum Destination {
    Operator(Poster),
    /// In tests of handlers.
    List(Arc<Mutex<Vec<PostedEvent>>>),
}

/// An event in a test of a handler, from [`Events::list`].
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PostedEvent {
    /// The object; empty for the handled object of a test.
    pub object: ObjectReference,
    /// The type: `Normal`, `Warning`, `Error`, or any other.
    pub event_type: String,
    /// The reason, such as `Created`.
    pub reason: String,
    /// The message.
    pub message: String,
}

impl Events {
    /// Returns the events about other objects: one or several.
    ///
    /// ```
    /// use kopf::Events;
    /// use kopf::prelude::*;
    ///
    /// let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "uid": "1"}});
    /// let events = Events::default();
    /// events.about(&pod)?.info("Created", "The pod is created.");
    /// assert_eq!(events.list()[0].object.name.as_deref(), Some("web"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If a value is not an object.
    pub fn about<M>(&self, objects: &(impl Referred<M> + ?Sized)) -> Result<Self, ObjectError> {
        Ok(Self {
            objects: objects.references()?.into(),
            destination: self.destination.clone(),
        })
    }

    /// Posts an event of any type.
    pub fn post(&self, event_type: &str, reason: &str, message: impl Display) {
        self.send(event_type, reason, message, |poster, object, message| {
            poster.event(object, event_type, reason, message);
        });
    }

    /// Posts an event of the type `Normal`.
    pub fn info(&self, reason: &str, message: impl Display) {
        self.send("Normal", reason, message, |poster, object, message| {
            poster.info(object, reason, message);
        });
    }

    /// Posts an event of the type `Warning`.
    pub fn warn(&self, reason: &str, message: impl Display) {
        self.send("Warning", reason, message, |poster, object, message| {
            poster.warn(object, reason, message);
        });
    }

    /// Posts an event of the type `Error`. The text of the error follows the message, for
    /// [`kopf::Error`](crate::Error) and `anyhow::Error` with its sources. An empty reason is
    /// replaced by the name of the error's type.
    pub fn exception<E: Display + ?Sized>(&self, reason: &str, message: impl Display, error: &E) {
        let reason = match reason {
            "" => short_name::<E>(),
            reason => reason,
        };
        let message = with_error(&message.to_string(), &format!("{error:#}"));
        self.send("Error", reason, message, |poster, object, message| {
            poster.exception(object, reason, message);
        });
    }

    /// Returns the events of a test of a handler, which was called with [`Events::default`]; empty
    /// in operators.
    pub fn list(&self) -> Vec<PostedEvent> {
        match &self.destination {
            Destination::Operator(_) => Vec::new(),
            Destination::List(list) => list.lock().clone(),
        }
    }

    fn send(
        &self,
        event_type: &str,
        reason: &str,
        message: impl Display,
        post: impl Fn(&Poster, &ObjectReference, String),
    ) {
        let message = message.to_string();
        for object in &*self.objects {
            match &self.destination {
                Destination::Operator(poster) => post(poster, object, message.clone()),
                Destination::List(list) => list.lock().push(PostedEvent {
                    object: object.clone(),
                    event_type: event_type.to_owned(),
                    reason: reason.to_owned(),
                    message: message.clone(),
                }),
            }
        }
    }
}

/// Events that are collected, for tests of handlers.
impl Default for Events {
    fn default() -> Self {
        Self {
            objects: Arc::new([ObjectReference::default()]),
            destination: Destination::List(Arc::default()),
        }
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Events").field(&self.objects).finish()
    }
}

impl Extract for Events {
    fn extract(context: &Context<'_>) -> Result<Self, Rejection> {
        context.object("Events")?;
        let logger = &context.call("Events")?.logger;
        Ok(Self {
            objects: Arc::new([ObjectReference::clone(logger.reference())]),
            destination: Destination::Operator(logger.poster().clone()),
        })
    }

    fn check(declared: &Declared<'_>) -> Result<(), Rejection> {
        declared.objects("Events")
    }
}

fn with_error(message: &str, error: &str) -> String {
    match (message, error) {
        (message, "") => message.to_owned(),
        ("", error) => error.to_owned(),
        (message, error) => format!("{message} {error}"),
    }
}

/// Returns the name of a type without its path and parameters.
fn short_name<E: ?Sized>() -> &'static str {
    let name = type_name::<E>();
    let name = name.split('<').next().unwrap_or(name);
    name.rsplit("::").next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_of_tests_are_collected_for_every_object() {
        let events = Events::default();
        events.post("Normal", "Seen", "message");
        events.info("Created", 5);
        events.warn("Odd", "message");
        events.exception("", "it failed:", &crate::permanent("no way"));
        let pod = |name: &str| json!({"kind": "Pod", "metadata": {"name": name}});
        let pods = events.about(&json!([pod("a"), pod("b")])).unwrap();
        pods.info("Created", "message");
        let list = events.list();
        let seen = list.iter().map(|event| {
            let name = event.object.name.as_deref().unwrap_or("-");
            let (kind, reason) = (event.event_type.as_str(), event.reason.as_str());
            format!("{name} {kind} {reason} {}", event.message)
        });
        assert_eq!(
            seen.collect::<Vec<_>>(),
            [
                "- Normal Seen message",
                "- Normal Created 5",
                "- Warning Odd message",
                "- Error Error it failed: no way",
                "a Normal Created message",
                "b Normal Created message",
            ]
        );
        assert!(events.about(&json!("text")).is_err());
    }

    #[test]
    fn errors_follow_messages() {
        assert_eq!(with_error("it failed:", "no way"), "it failed: no way");
        assert_eq!(with_error("", "no way"), "no way");
        assert_eq!(with_error("it failed", ""), "it failed");
    }

    #[test]
    fn types_have_short_names() {
        assert_eq!(short_name::<std::num::ParseIntError>(), "ParseIntError");
        assert_eq!(short_name::<crate::Error>(), "Error");
        assert_eq!(short_name::<Vec<std::io::Error>>(), "Vec");
    }
}
