//! Spans of the engine for OpenTelemetry in Python: cycles, handlers and requests.
//!
//! A span becomes one of Python when a handler starts in it, or when it ends. Python then has the
//! same tree as the engine, with the times of the engine.

use std::fmt;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use kopf_core::sync::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tracing::Span;
use tracing::field::{Field, Visit};
use tracing_subscriber::Registry;
use tracing_subscriber::registry::LookupSpan as _;

use crate::front::Front;

/// The target of the engine's spans.
pub(crate) const TARGET: &str = "kopf_trace";

/// A span of the engine.
pub(crate) struct Traced {
    name: &'static str,
    parent: Option<Arc<Self>>,
    /// Nanoseconds since the epoch.
    started: u64,
    fields: Mutex<Fields>,
    /// The span of Python.
    object: Mutex<Option<Py<PyAny>>>,
}

/// The attributes of a span.
#[derive(Clone, Default)]
pub(crate) struct Fields(Vec<(&'static str, Attribute)>);

#[derive(Clone)]
enum Attribute {
    Text(String),
    Number(i64),
}

impl Traced {
    pub(crate) fn new(name: &'static str, parent: Option<Arc<Self>>, fields: Fields) -> Self {
        Self {
            name,
            parent,
            started: now(),
            fields: Mutex::new(fields),
            object: Mutex::default(),
        }
    }

    /// Adds attributes.
    pub(crate) fn record(&self, visit: impl FnOnce(&mut Fields)) {
        visit(&mut self.fields.lock());
    }

    /// Returns the current span of the engine, if it is recorded.
    pub(crate) fn current() -> Option<Arc<Self>> {
        Span::current().with_subscriber(|(id, subscriber)| {
            let span = subscriber.downcast_ref::<Registry>()?.span(id)?;
            span.extensions().get::<Arc<Self>>().cloned()
        })?
    }

    /// Returns the span of Python; `None` of Python if OpenTelemetry is not used.
    pub(crate) fn object(&self, py: Python<'_>, front: &Front) -> PyResult<Py<PyAny>> {
        if let Some(known) = &*self.object.lock() {
            return Ok(known.clone_ref(py));
        }
        let parent = self.parent.as_ref();
        let parent = parent.map(|parent| parent.object(py, front)).transpose()?;
        let arguments = (self.name, self.attributes(py)?, self.started, parent);
        let made = front.bridge.call_method1(py, "start_span", arguments)?;
        *self.object.lock() = Some(made.clone_ref(py));
        Ok(made)
    }

    /// Ends the span of Python.
    pub(crate) fn end(&self, py: Python<'_>, front: &Front, ended: u64) -> PyResult<()> {
        let arguments = (self.object(py, front)?, self.attributes(py)?, ended);
        front.bridge.call_method1(py, "end_span", arguments)?;
        Ok(())
    }

    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = self.fields.lock().clone();
        let attributes = PyDict::new(py);
        for (name, attribute) in fields.0 {
            match attribute {
                Attribute::Text(text) => attributes.set_item(name, text)?,
                Attribute::Number(number) => attributes.set_item(name, number)?,
            }
        }
        Ok(attributes)
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0
            .push((field.name(), Attribute::Text(value.to_owned())));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.push((field.name(), Attribute::Number(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.0.push((field.name(), Attribute::Number(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0
            .push((field.name(), Attribute::Text(format!("{value:?}"))));
    }
}

/// Returns the system time in nanoseconds since the epoch.
#[allow(clippy::disallowed_methods, reason = "spans have the system time")]
pub(crate) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.map(|since| since.as_nanos()).unwrap_or_default();
    u64::try_from(since).unwrap_or(u64::MAX)
}
