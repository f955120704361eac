//! Callbacks of users: filters, delays, lifecycles.
//!
//! They are called inside tasks of the engine that the event loop polls, so the thread is already
//! attached to the interpreter.

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
use kopf_engine::invocation::FilterContext;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use serde_json::Value;

use crate::declare::description::Criterion;
use crate::front::Front;
use crate::front::convert::{from_python, to_python};
use crate::front::raised::Raised;
use crate::front::reading::duration;
use crate::objects::call::PyCall;

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

/// Converts filters of labels or annotations.
pub(crate) fn criteria(
    py: Python<'_>,
    given: &[(String, Criterion)],
    callback: &dyn Fn(&Py<PyAny>) -> Callback,
) -> PyResult<BTreeMap<String, MetaCriterion>> {
    let criteria = given.iter().map(|(name, given)| {
        let criterion = match given {
            Criterion::Present(_) => MetaCriterion::Present,
            Criterion::Absent(_) => MetaCriterion::Absent,
            Criterion::Callback(given) => {
                MetaCriterion::Callback(Arc::new(callback(&given.function)))
            }
            Criterion::Literal(given) => MetaCriterion::Literal(given.value.extract(py)?),
        };
        Ok((name.clone(), criterion))
    });
    criteria.collect()
}

/// Converts a filter of a value.
pub(crate) fn value_criterion(
    py: Python<'_>,
    given: &Criterion,
    callback: &dyn Fn(&Py<PyAny>) -> Callback,
) -> PyResult<ValueCriterion> {
    Ok(match given {
        Criterion::Present(_) => ValueCriterion::Present,
        Criterion::Absent(_) => ValueCriterion::Absent,
        Criterion::Callback(given) => ValueCriterion::Callback(Arc::new(callback(&given.function))),
        Criterion::Literal(given) => ValueCriterion::Literal(from_python(given.value.bind(py))?),
    })
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
