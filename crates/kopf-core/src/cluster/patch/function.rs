//! Changes that depend on the object at the time of application.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

/// An error of user code.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

type Function = dyn Fn(&mut Value) -> Result<(), BoxError> + Send + Sync;

/// A future of the new body.
pub type Transformed = Pin<Box<dyn Future<Output = Result<Value, BoxError>> + Send>>;

type AwaitedFunction = dyn Fn(Value) -> Transformed + Send + Sync;

#[derive(Clone)]
enum Kind {
    Plain(Arc<Function>),
    Awaited(Arc<AwaitedFunction>),
}

/// A function that changes the raw body in place, e.g. adds an item to a list.
///
/// It can be run several times, each time on a copy of the newest body, so it must be stateless.
/// The changes are found by comparison and sent as a JSON patch that the server rejects if the
/// object has changed meanwhile.
///
/// ```
/// use kopf_core::patch::{Patch, PatchFn};
/// use serde_json::json;
///
/// let mut patch = Patch::default();
/// patch.add_fn(PatchFn::new("count", |body| {
///     body["spec"]["count"] = json!(body["spec"]["count"].as_u64().unwrap_or(0) + 1);
///     Ok(())
/// }));
/// ```
#[derive(Clone)]
pub struct PatchFn {
    label: &'static str,
    kind: Kind,
    after_conflict: AfterConflict,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterConflict {
    /// The function is called with the newest version of the object.
    Repeat,
    /// The next cycle decides again whether the function is needed.
    Drop,
}

impl PatchFn {
    /// Wraps a function; the label is its name in logs and errors.
    pub fn new(
        label: &'static str,
        function: impl Fn(&mut Value) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            label,
            kind: Kind::Plain(Arc::new(function)),
            after_conflict: AfterConflict::Repeat,
        }
    }

    /// Wraps a function that is awaited: for frontends whose functions run in another thread. It gets
    /// the body and returns the changed one.
    ///
    /// ```
    /// use kopf_core::patch::{PatchFn, transform};
    /// use serde_json::json;
    ///
    /// let count = PatchFn::awaited("count", |mut body| {
    ///     Box::pin(async move {
    ///         body["spec"]["count"] = json!(1);
    ///         Ok(body)
    ///     })
    /// });
    /// assert!(count.call(&mut json!({})).is_err(), "it must be awaited");
    ///
    /// async fn changed(fns: &[PatchFn]) -> Result<serde_json::Value, kopf_core::patch::Error> {
    ///     transform(fns, &json!({"spec": {}})).await
    /// }
    /// ```
    pub fn awaited(
        label: &'static str,
        function: impl Fn(Value) -> Transformed + Send + Sync + 'static,
    ) -> Self {
        Self {
            label,
            kind: Kind::Awaited(Arc::new(function)),
            after_conflict: AfterConflict::Repeat,
        }
    }

    /// Drops the function after a conflict, instead of calling it with the newest version of the
    /// object: for changes that every cycle decides about again.
    #[must_use]
    pub(crate) fn dropped_after_conflict(self) -> Self {
        Self {
            after_conflict: AfterConflict::Drop,
            ..self
        }
    }

    /// Returns `true` if both are clones of one function.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.kind, &other.kind) {
            (Kind::Plain(one), Kind::Plain(other)) => Arc::ptr_eq(one, other),
            (Kind::Awaited(one), Kind::Awaited(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Returns `true` if the function is called again after a conflict.
    pub fn is_repeated_after_conflict(&self) -> bool {
        self.after_conflict == AfterConflict::Repeat
    }

    /// Returns the name in logs and errors.
    pub fn label(&self) -> &'static str {
        self.label
    }

    /// Returns `true` if the function must be awaited.
    pub fn is_awaited(&self) -> bool {
        matches!(self.kind, Kind::Awaited(_))
    }

    /// Changes the body.
    ///
    /// # Errors
    /// Of the function; and if the function must be awaited.
    pub fn call(&self, body: &mut Value) -> Result<(), BoxError> {
        match &self.kind {
            Kind::Plain(function) => function(body),
            Kind::Awaited(_) => Err("the function must be awaited".into()),
        }
    }

    /// Changes the body; awaits the function if it must be awaited. If it is dropped or fails
    /// meanwhile, the body is null.
    ///
    /// # Errors
    /// Of the function.
    pub async fn apply(&self, body: &mut Value) -> Result<(), BoxError> {
        match &self.kind {
            Kind::Plain(function) => function(body),
            Kind::Awaited(function) => {
                *body = function(std::mem::take(body)).await?;
                Ok(())
            }
        }
    }
}

impl fmt::Debug for PatchFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PatchFn").field(&self.label).finish()
    }
}
