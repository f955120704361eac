//! Bodies of calls, converted on access.

use std::any::Any;
use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::key_order::KeyOrder;
use kopf_core::sync::Mutex;
use kopf_engine::invocation::LiveBody;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use crate::front::Front;
use crate::front::convert::to_python_in_order;

/// State shared by all calls of one cycle.
pub(crate) struct Cycle {
    /// An object of Python that contains the patch.
    pub(crate) object: Py<PyAny>,
    body: Mutex<Option<(Body, Py<PyAny>)>>,
}

impl Cycle {
    pub(crate) fn new(object: Py<PyAny>) -> Self {
        Self {
            object,
            body: Mutex::default(),
        }
    }
}

/// The cell of the frontend in the patch of a cycle.
pub(crate) type Cell = Arc<dyn Any + Send + Sync>;

pub(crate) fn cycle(cell: &Cell) -> PyResult<&Cycle> {
    cell.downcast_ref()
        .ok_or_else(|| PyRuntimeError::new_err("the cycle belongs to another frontend"))
}

/// The source of a body.
///
/// It does not refer to its call: users store bodies in memos, to which the call refers, and the
/// garbage collector cannot detect such cycles.
#[pyclass(frozen, module = "kopf._kopf")]
pub(crate) struct BodySource {
    front: Arc<Front>,
    body: Option<Body>,
    live: Option<LiveBody>,
    cycle: Option<Cell>,
}

impl BodySource {
    pub(crate) fn new(
        front: Arc<Front>,
        body: Option<Body>,
        live: Option<LiveBody>,
        cycle: Option<Cell>,
    ) -> Self {
        Self {
            front,
            body,
            live,
            cycle,
        }
    }
}

#[pymethods]
impl BodySource {
    /// Returns the body as a dict, one for each version and cycle.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Some(body) = &self.body else {
            return Ok(PyDict::new(py).into_any().unbind());
        };
        let Some(cell) = &self.cycle else {
            return self.front.body(py, body);
        };
        let cycle = cycle(cell)?;
        if let Some((known, object)) = &*cycle.body.lock()
            && std::ptr::eq(known.value(), body.value())
        {
            return Ok(object.clone_ref(py));
        }
        let made = self.front.body(py, body)?;
        let former = cycle
            .body
            .lock()
            .replace((body.clone(), made.clone_ref(py)));
        drop(former);
        Ok(made)
    }

    /// Returns the newest version of the body, for daemons and timers.
    fn newest(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.live {
            Some(live) => self.front.body(py, &live.get()),
            None => self.get(py),
        }
    }
}

/// The source of the old or new object of a review.
#[pyclass(frozen, module = "kopf._kopf")]
pub(crate) struct ReviewedSource(Arc<Value>, Option<Arc<KeyOrder>>);

impl ReviewedSource {
    pub(crate) fn new(value: Arc<Value>, order: Option<Arc<KeyOrder>>) -> Self {
        Self(value, order)
    }
}

#[pymethods]
impl ReviewedSource {
    /// Returns the object as a dict.
    fn get(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(to_python_in_order(py, &self.0, self.1.as_deref())?.unbind())
    }
}
