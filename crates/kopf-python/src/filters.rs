//! Callbacks of users: filters, delays, lifecycles, selectors.
//!
//! They are called inside tasks of the engine that the event loop polls, so the thread is already
//! attached to the interpreter. Selectors are called in the engine's own thread, once for each
//! discovered resource.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kopf_core::cause::Cause;
use kopf_core::filter::{MetaCriterion, ValueCriterion, ValueFilter, WhenFilter};
use kopf_core::handler::DelayFunction;
use kopf_core::lifecycle::{
    self, AllAtOnce, Asap, Candidate, Lifecycle, OneByOne, Randomized, Shuffled,
};
use kopf_core::patch::BoxError;
use kopf_core::resource::Resource;
use kopf_engine::invocation::FilterContext;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use crate::call::PyCall;
use crate::convert::{from_python, to_python};
use crate::declaring::{duration, get};
use crate::front::Front;
use crate::raised::Raised;

/// A callback of a handler.
pub(crate) struct Callback {
    pub(crate) front: Arc<Front>,
    pub(crate) handler: Py<PyAny>,
    pub(crate) function: Py<PyAny>,
}

impl Callback {
    fn call<'py>(
        &self,
        py: Python<'py>,
        method: &str,
        value: Option<&Value>,
        cause: &Cause,
        context: &dyn Any,
    ) -> PyResult<Bound<'py, PyAny>> {
        let context: &FilterContext = context
            .downcast_ref()
            .ok_or_else(|| PyRuntimeError::new_err("there is no context"))?;
        let call = Py::new(
            py,
            PyCall::of_filter(Arc::clone(&self.front), cause, context),
        )?;
        let bridge = self.front.bridge.bind(py);
        match value {
            None => bridge.call_method1(method, (&self.function, &self.handler, call)),
            Some(value) => {
                let value = to_python(py, value)?;
                bridge.call_method1(method, (&self.function, &self.handler, call, value))
            }
        }
    }

    fn check(
        &self,
        value: Option<&Value>,
        cause: &Cause,
        context: &dyn Any,
    ) -> Result<bool, BoxError> {
        Python::attach(|py| {
            let answer = self.call(py, "check", value, cause, context);
            answer.and_then(|answer| answer.is_truthy())
        })
        .map_err(boxed)
    }
}

impl WhenFilter for Callback {
    fn matches(&self, cause: &Cause, context: &dyn Any) -> Result<bool, BoxError> {
        self.check(None, cause, context)
    }
}

impl ValueFilter for Callback {
    fn matches(&self, value: &Value, cause: &Cause, context: &dyn Any) -> Result<bool, BoxError> {
        self.check(Some(value), cause, context)
    }
}

impl DelayFunction for Callback {
    fn delay(&self, cause: &Cause, context: &dyn Any) -> Result<Duration, BoxError> {
        Python::attach(|py| duration(&self.call(py, "delay", None, cause, context)?)).map_err(boxed)
    }
}

fn boxed(error: PyErr) -> BoxError {
    Raised::new(error).into()
}

/// Converts filters of labels or annotations: pairs of a key and a criterion.
pub(crate) fn criteria(
    spec: &Bound<'_, PyDict>,
    key: &str,
    callback: &dyn Fn(Py<PyAny>) -> Callback,
) -> PyResult<BTreeMap<String, MetaCriterion>> {
    let mut criteria = BTreeMap::new();
    let given: Vec<(String, String, Py<PyAny>)> = get(spec, key)?.unwrap_or_default();
    for (name, kind, payload) in given {
        let criterion = match &*kind {
            "present" => MetaCriterion::Present,
            "absent" => MetaCriterion::Absent,
            "callback" => MetaCriterion::Callback(Arc::new(callback(payload))),
            _ => MetaCriterion::Literal(payload.extract(spec.py())?),
        };
        criteria.insert(name, criterion);
    }
    Ok(criteria)
}

/// Converts a filter of a value: a pair of its kind and its payload.
pub(crate) fn value_criterion(
    spec: &Bound<'_, PyDict>,
    key: &str,
    callback: &dyn Fn(Py<PyAny>) -> Callback,
) -> PyResult<Option<ValueCriterion>> {
    let Some((kind, payload)) = get::<(String, Py<PyAny>)>(spec, key)? else {
        return Ok(None);
    };
    Ok(Some(match &*kind {
        "present" => ValueCriterion::Present,
        "absent" => ValueCriterion::Absent,
        "callback" => ValueCriterion::Callback(Arc::new(callback(payload))),
        _ => ValueCriterion::Literal(from_python(payload.bind(spec.py()))?),
    }))
}

/// Calls a selector of a user for a discovered resource. Errors are logged and mean `false`.
pub(crate) fn selects(front: &Arc<Front>, function: &Py<PyAny>, resource: &Resource) -> bool {
    let asked = Python::try_attach(|py| {
        let resource = front.resource(py, &Arc::new(resource.clone()))?;
        function.bind(py).call1((resource,))?.is_truthy()
    });
    match asked {
        Some(Ok(answer)) => answer,
        Some(Err(error)) => {
            let error = Raised::new(error);
            tracing::error!(target: "kopf_engine::observation", "A selector has failed for {resource}: {error}");
            false
        }
        // The interpreter is shutting down.
        None => false,
    }
}

/// Converts a lifecycle: the name of a provided one, or a function.
pub(crate) fn lifecycle(
    front: &Arc<Front>,
    given: &Bound<'_, PyAny>,
) -> PyResult<Arc<dyn Lifecycle>> {
    if given.is_callable() {
        return Ok(Arc::new(PyLifecycle {
            front: Arc::clone(front),
            function: given.clone().unbind(),
        }));
    }
    let (name, seed): (String, u64) = given.extract()?;
    Ok(match &*name {
        "all_at_once" => Arc::new(AllAtOnce),
        "one_by_one" => Arc::new(OneByOne),
        "randomized" => Arc::new(Randomized::new(seed)),
        "shuffled" => Arc::new(Shuffled::new(seed)),
        _ => Arc::new(Asap),
    })
}

/// A lifecycle of a user.
struct PyLifecycle {
    front: Arc<Front>,
    function: Py<PyAny>,
}

impl Lifecycle for PyLifecycle {
    fn pick(&self, candidates: &[Candidate<'_>], cause: &Cause, context: &dyn Any) -> Vec<usize> {
        self.try_pick(candidates, cause, context)
            .unwrap_or_default()
    }

    fn try_pick(
        &self,
        candidates: &[Candidate<'_>],
        cause: &Cause,
        context: &dyn Any,
    ) -> Result<Vec<usize>, lifecycle::Error> {
        let picked = Python::attach(|py| -> PyResult<Vec<usize>> {
            let context: &FilterContext = context
                .downcast_ref()
                .ok_or_else(|| PyRuntimeError::new_err("there is no context"))?;
            let call = PyCall::of_filter(Arc::clone(&self.front), cause, context);
            let ids: Vec<(&str, u32)> = candidates
                .iter()
                .map(|candidate| (&**candidate.id, candidate.retries))
                .collect();
            let arguments = (&self.function, Py::new(py, call)?, ids);
            let bridge = self.front.bridge.bind(py);
            bridge.call_method1("pick", arguments)?.extract()
        });
        // Displaying the exception stores it for the record of this failure.
        picked.map_err(|error| lifecycle::Error(Raised::new(error).to_string()))
    }
}

impl fmt::Debug for PyLifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PyLifecycle")
    }
}
