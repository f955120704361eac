//! Changes that depend on the object as it is when they are applied.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// Any error of the user's code.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

type Function = dyn Fn(&mut Value) -> Result<(), BoxError> + Send + Sync;

/// A function that changes the raw body in place, e.g. adds an item to a list.
///
/// It can be run several times, each time on a fresh copy of the newest body, so it must not
/// remember anything. What it did is found by comparison and sent as a JSON patch that the server
/// rejects if the object has changed meanwhile.
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
    function: Arc<Function>,
}

impl PatchFn {
    /// Wraps a function; the label names it in logs and errors.
    pub fn new(
        label: &'static str,
        function: impl Fn(&mut Value) -> Result<(), BoxError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            label,
            function: Arc::new(function),
        }
    }

    /// How it is called in logs and errors.
    pub fn label(&self) -> &'static str {
        self.label
    }

    /// Changes the body.
    pub fn call(&self, body: &mut Value) -> Result<(), BoxError> {
        (self.function)(body)
    }
}

impl fmt::Debug for PatchFn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PatchFn").field(&self.label).finish()
    }
}
