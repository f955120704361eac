//! Conversion of patches from Python.

use std::sync::Arc;

use kopf_core::patch::{BoxError, Patch, PatchFn};
use pyo3::prelude::*;
use serde_json::Value;
use tokio::sync::oneshot;

use crate::front::Front;
use crate::front::convert::{from_python as value_from_python, map_from_python, to_python};
use crate::front::queue::Entry;
use crate::front::raised::Raised;

/// Converts a patch: its content, and its functions, which the event loop calls.
pub(crate) fn from_python(
    front: &Arc<Front>,
    merge: &Bound<'_, PyAny>,
    fns: Vec<Py<PyAny>>,
) -> PyResult<Patch> {
    let mut patch = Patch {
        merge: map_from_python(merge)?,
        ..Patch::default()
    };
    for function in fns {
        patch.add_fn(awaited(Arc::clone(front), Arc::new(function)));
    }
    Ok(patch)
}

fn awaited(front: Arc<Front>, function: Arc<Py<PyAny>>) -> PatchFn {
    PatchFn::awaited("in patch.fns", move |body| {
        let (sender, receiver) = oneshot::channel();
        let called = Arc::clone(&function);
        front.queue.push(Entry::Run(Box::new(move |py| {
            let _ = sender.send(call(py, &called, &body).map_err(Raised::new));
        })));
        Box::pin(async move {
            let result = receiver.await.map_err(|_| "the event loop has ended")?;
            result.map_err(BoxError::from)
        })
    })
}

fn call(py: Python<'_>, function: &Py<PyAny>, body: &Value) -> PyResult<Value> {
    let body = to_python(py, body)?;
    function.call1(py, (&body,))?;
    value_from_python(&body)
}
