//! The arguments of one call, converted on access, and its end.

mod failing;
mod orders;
mod reviewing;

use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::{Cause, Change};
use kopf_core::key_order::KeyOrder;
use kopf_core::reference::ObjectReference;
use kopf_core::trigger::{Requeue, Trigger};
use kopf_core::wording::Level;
use kopf_engine::applying::FieldOwnership;
use kopf_engine::invocation::{
    Admission, Call, FilterContext, LiveBody, OperatorContext, SharedPatch, Subject,
};
use kopf_engine::memos::MemoCell;
use kopf_engine::posting::Poster;
use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use crate::front::Front;
use crate::front::convert::{from_python, to_python, to_python_in_order};
use crate::front::delays;
use crate::front::job::Job;
use crate::objects::bodies::{BodySource, Cell, Cycle, ReviewedSource, cycle};
use crate::objects::memos::PyMemo;
use crate::objects::stopping::StopFlag;
use crate::objects::{children, patching, posting};

/// A call of a function or filter.
#[pyclass(frozen, name = "Call", module = "kopf._kopf")]
pub(crate) struct PyCall {
    pub(crate) front: Arc<Front>,
    cause: Option<Arc<Cause>>,
    admission: Option<Arc<Admission>>,
    memo: MemoCell,
    reference: Arc<ObjectReference>,
    operator: Arc<OperatorContext>,
    poster: Poster,
    job: Option<Arc<Job>>,
}

impl PyCall {
    /// Creates the call of a handler.
    pub(crate) fn of_job(job: Arc<Job>) -> Self {
        let call = &job.call;
        Self {
            front: Arc::clone(&job.function.front),
            cause: call.cause().cloned(),
            admission: call.admission().cloned(),
            memo: call.memo.clone(),
            reference: Arc::clone(call.logger.reference()),
            operator: Arc::clone(&call.operator),
            poster: call.logger.poster().clone(),
            job: Some(job),
        }
    }

    /// Creates the call of a filter.
    pub(crate) fn of_filter(front: Arc<Front>, cause: &Cause, context: &FilterContext) -> Self {
        Self {
            front,
            cause: Some(Arc::new(cause.clone())),
            admission: context.admission.clone(),
            memo: context.memo.clone(),
            reference: Arc::clone(context.logger.reference()),
            operator: Arc::clone(&context.operator),
            poster: context.logger.poster().clone(),
            job: None,
        }
    }

    pub(crate) fn call(&self) -> PyResult<&Call> {
        Ok(&self.job()?.call)
    }

    pub(crate) fn job(&self) -> PyResult<&Arc<Job>> {
        self.job
            .as_ref()
            .ok_or_else(|| PyRuntimeError::new_err("filters have no attempts"))
    }

    fn cell_of(&self, py: Python<'_>, patch: &SharedPatch) -> PyResult<Cell> {
        let object = || self.front.bridge.call_method0(py, intern!(py, "new_cycle"));
        let mut failed = None;
        let cell = patch.cell(|| {
            let object = object().unwrap_or_else(|error| {
                failed = Some(error);
                py.None()
            });
            Arc::new(Cycle::new(object))
        });
        match failed {
            Some(error) => Err(error),
            None => Ok(Arc::clone(cell)),
        }
    }

    fn change(&self) -> Option<&Change> {
        self.cause.as_ref()?.change.as_ref()
    }

    fn live(&self) -> Option<&LiveBody> {
        self.job.as_ref()?.call.live.as_ref()
    }
}

#[pymethods]
impl PyCall {
    /// Returns the full id of the handler.
    #[getter]
    fn id(&self) -> PyResult<&str> {
        Ok(&self.call()?.id)
    }

    /// Returns the handler as declared.
    #[getter]
    fn handler(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.job()?.function.handler.clone_ref(py))
    }

    /// Returns `true` for coroutine functions.
    #[getter]
    fn is_async(&self) -> PyResult<bool> {
        Ok(self.job()?.function.is_async)
    }

    #[getter]
    fn retry(&self) -> PyResult<u32> {
        Ok(self.call()?.retry)
    }

    /// Returns seconds since the epoch, and microseconds.
    #[getter]
    fn started(&self) -> PyResult<(i64, i32)> {
        let started = self.call()?.started;
        Ok((started.as_second(), started.subsec_microsecond()))
    }

    /// Returns the duration in seconds.
    #[getter]
    fn runtime(&self) -> PyResult<f64> {
        Ok(self.call()?.runtime.as_secs_f64())
    }

    /// Returns the name of the activity.
    #[getter]
    fn activity(&self) -> PyResult<Option<&'static str>> {
        Ok(match &self.call()?.subject {
            Subject::Activity(activity) => Some(activity.as_str()),
            _ => None,
        })
    }

    #[getter]
    fn reason(&self) -> Option<&'static str> {
        self.change().map(|change| change.reason.as_str())
    }

    #[getter]
    fn initial(&self) -> bool {
        self.change().is_some_and(|change| change.initial)
    }

    /// Returns the type of the event; `None` for listed objects.
    #[getter]
    fn event_type(&self) -> Option<&'static str> {
        self.cause.as_ref()?.event?.as_str()
    }

    #[getter]
    fn has_change(&self) -> bool {
        self.change().is_some()
    }

    #[getter]
    fn resource(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let resource = self.cause.as_ref().map(|cause| &cause.resource);
        resource
            .map(|resource| self.front.resource(py, resource))
            .transpose()
    }

    /// Returns the body as a dict, one for each version and cycle.
    fn body(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.body_source(py)?.get(py)
    }

    /// Returns the source of the body, which can outlive the call.
    fn body_source(&self, py: Python<'_>) -> PyResult<BodySource> {
        let patch = self.job.as_ref().map(|job| &job.call.patch);
        let cycle = match patch.filter(|_| self.cause.is_some()) {
            Some(patch) => Some(self.cell_of(py, patch)?),
            None => None,
        };
        let body = self.cause.as_ref().map(|cause| cause.body.clone());
        let front = Arc::clone(&self.front);
        Ok(BodySource::new(front, body, self.live().cloned(), cycle))
    }

    #[getter]
    fn is_live(&self) -> bool {
        self.live().is_some()
    }

    #[pyo3(name = "old")]
    fn old_value(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let old = self.change().and_then(|change| change.old.as_deref());
        match old {
            Some(old) => {
                let order = self.old_order(old);
                Ok(to_python_in_order(py, old, order.as_deref())?.unbind())
            }
            None => Ok(py.None()),
        }
    }

    #[pyo3(name = "new")]
    fn new_value(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let new = self.change().and_then(|change| change.new.as_deref());
        match new {
            Some(new) => {
                let order = self.new_order(new);
                Ok(to_python_in_order(py, new, order.as_deref())?.unbind())
            }
            None => Ok(py.None()),
        }
    }

    /// Returns the sources of the old and new object of a review.
    fn reviewed(&self) -> (Option<ReviewedSource>, Option<ReviewedSource>) {
        let admission = self.admission.as_ref();
        admission.map_or((None, None), |admission| reviewing::sources(admission))
    }

    /// Returns the changes as tuples of the operation, the field, the old and the new value.
    fn diff(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let items = PyList::empty(py);
        let diff = match &self.admission {
            Some(admission) => Some(admission.review.diff()),
            None => self.change().map(|change| &change.diff),
        };
        let (old_order, new_order) = self.orders();
        for item in diff.into_iter().flat_map(|diff| diff.iter()) {
            let field = PyTuple::new(py, item.field.steps().iter().map(|step| &**step))?;
            let convert = |value, order: Option<&Arc<KeyOrder>>| {
                let order = order.and_then(|order| order.at(&item.field));
                to_python_in_order(py, value, order.map(Arc::as_ref))
            };
            let old = convert(&item.old, old_order.as_ref())?;
            let new = convert(&item.new, new_order.as_ref())?;
            items.append((item.operation.as_str(), field, old, new))?;
        }
        Ok(items.into_any().unbind())
    }

    #[getter]
    fn memo(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self.memo.get().downcast_ref::<PyMemo>() {
            Some(memo) => memo.get(py),
            None => Ok(py.None()),
        }
    }

    /// Returns the context variables of the object's handlers, if any were set.
    #[getter]
    fn variables(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let memo = self.memo.get();
        memo.downcast_ref::<PyMemo>()?.variables(py)
    }

    /// Keeps the context variables of the object's handlers.
    #[setter]
    fn set_variables(&self, object: Py<PyAny>) {
        if let Some(memo) = self.memo.get().downcast_ref::<PyMemo>() {
            memo.set_variables(object);
        }
    }

    /// Returns the reference to the object, for log records and events. Absent parts are `None`.
    #[getter]
    fn reference<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let reference = &*self.reference;
        let parts = [
            (intern!(py, "apiVersion"), &reference.api_version),
            (intern!(py, "kind"), &reference.kind),
            (intern!(py, "name"), &reference.name),
            (intern!(py, "uid"), &reference.uid),
            (intern!(py, "namespace"), &reference.namespace),
        ];
        let dict = PyDict::new(py);
        for (key, part) in parts {
            dict.set_item(key, part.as_deref().filter(|text| !text.is_empty()))?;
        }
        Ok(dict)
    }

    /// Returns the stop flag of daemons and timers.
    #[getter]
    fn stopped(&self) -> PyResult<Option<StopFlag>> {
        let stopped = self.call()?.stopped.clone();
        Ok(stopped.map(|stopped| StopFlag::new(stopped, Arc::clone(&self.front))))
    }

    /// Returns the state shared by all handlers of one cycle, an object of the bridge.
    #[getter]
    fn cycle(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let patch = &self.call()?.patch;
        Ok(cycle(&self.cell_of(py, patch)?)?.object.clone_ref(py))
    }

    /// Returns the span of the call in OpenTelemetry; `None` if it is not recorded.
    fn span(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let traced = self.job()?.traced.as_ref();
        traced.map(|span| span.object(py, &self.front)).transpose()
    }

    #[getter]
    fn is_cancelled(&self) -> PyResult<bool> {
        Ok(self.job()?.completion.is_cancelled())
    }

    /// Returns the parts of an admission request; `None` for other calls.
    fn admission(&self, py: Python<'_>) -> PyResult<Option<Py<PyDict>>> {
        let Some(admission) = &self.admission else {
            return Ok(None);
        };
        Ok(Some(reviewing::parts(py, admission)?.unbind()))
    }

    /// Replaces the warnings of an admission request after a call.
    fn warn(&self, warnings: Vec<String>) {
        if let Some(admission) = &self.admission {
            reviewing::warn(admission, warnings);
        }
    }

    /// Returns the warnings of an admission request.
    fn warnings(&self) -> Vec<String> {
        self.admission
            .as_ref()
            .map(|admission| admission.warnings.list())
            .unwrap_or_default()
    }

    /// Replaces the patch of the cycle. Called after each function.
    fn set_patch(&self, merge: &Bound<'_, PyAny>, fns: Vec<Py<PyAny>>) -> PyResult<()> {
        let patch = patching::from_python(&self.front, merge, fns)?;
        self.call()?.patch.replace(patch);
        Ok(())
    }

    /// Ends the call with a result.
    fn finish(&self, result: &Bound<'_, PyAny>) -> PyResult<()> {
        let result = if result.is_none() {
            None
        } else {
            Some(from_python(result)?)
        };
        self.job()?.finish(Ok(result));
        Ok(())
    }

    /// Ends the call of an index function with its result.
    fn finish_index(&self, result: Py<PyAny>) -> PyResult<()> {
        let entries: kopf_engine::indexing::Entries = Box::new(result);
        self.call()?.slot.put(entries);
        self.job()?.finish(Ok(None));
        Ok(())
    }

    /// Ends the call of a reconcile handler with its request for another call.
    fn finish_requeue(&self, after: Option<f64>) -> PyResult<()> {
        if let Some(after) = after {
            let request = Requeue::after(failing::delay(after));
            self.call()?.slot.put(request);
        }
        self.job()?.finish(Ok(None));
        Ok(())
    }

    /// Returns the names of the reasons of the call of a reconcile handler.
    fn triggers(&self) -> PyResult<Vec<&'static str>> {
        let triggers = self.call()?.triggers.iter();
        Ok(triggers.map(Trigger::as_str).collect())
    }

    /// Ends the call with an error.
    #[pyo3(signature = (kind, message, *, delay=None, code=None, exception=None))]
    fn fail(
        &self,
        kind: &str,
        message: String,
        delay: Option<f64>,
        code: Option<u16>,
        exception: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let delay = delay.map(failing::delay);
        let error = failing::error(kind, message, delay, code, exception);
        self.job()?.finish(Err(error));
        Ok(())
    }

    /// Returns the changed child of the object and the type of its event; `None` for other calls.
    fn child(&self, py: Python<'_>) -> PyResult<Option<(Py<PyAny>, Option<&'static str>)>> {
        let Some(child) = &self.call()?.child else {
            return Ok(None);
        };
        let order = child.body.order().map(Arc::as_ref);
        let body = to_python_in_order(py, child.body.value(), order)?.unbind();
        Ok(Some((body, child.event.as_str())))
    }

    /// Returns the existing objects of a kind that the object owns; of all kinds for `None`.
    #[pyo3(signature = (kind=None))]
    fn children(&self, py: Python<'_>, kind: Option<&str>) -> PyResult<Vec<Py<PyAny>>> {
        let children = self.call()?.children().into_iter();
        let children = children.filter(|child| kind.is_none_or(|kind| child.resource.kind == kind));
        children
            .map(|child| Ok(to_python(py, child.body.value())?.unbind()))
            .collect()
    }

    /// Applies a child of the owner. Resolves the future with the stored child.
    fn apply_child(
        &self,
        owner: &Bound<'_, PyAny>,
        manifest: &Bound<'_, PyAny>,
        force: bool,
        future: Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (owner, manifest) = (from_python(owner)?, from_python(manifest)?);
        let operator = Arc::clone(&self.call()?.operator);
        let ownership = if force {
            FieldOwnership::TakeOver
        } else {
            FieldOwnership::Respect
        };
        let child = children::Applying {
            operator,
            owner: Body::new(owner),
            manifest,
            ownership,
            span: self.job()?.span(),
        };
        children::apply(future.py(), &self.front, child, future.unbind())
    }

    /// Posts a Kubernetes event. The default delays between attempts are those of the settings.
    #[pyo3(signature = (reference, type_, reason, message, backoffs=None))]
    fn post(
        &self,
        reference: &Bound<'_, PyAny>,
        type_: &str,
        reason: &str,
        message: String,
        backoffs: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let reference = posting::reference(reference)?;
        let backoffs = backoffs.map(delays::backoffs).transpose()?;
        self.poster
            .post(&reference, type_, reason, message, backoffs);
        Ok(())
    }

    /// Posts a log record as a Kubernetes event.
    fn post_record(
        &self,
        reference: &Bound<'_, PyAny>,
        level: i32,
        message: String,
    ) -> PyResult<()> {
        let reference = posting::reference(reference)?;
        self.poster.record(&reference, Level::from(level), message);
        Ok(())
    }
}
