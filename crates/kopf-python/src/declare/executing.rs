//! Sub-handlers of a call.

use std::sync::Arc;

use kopf_core::outcome::HandlerError;
use kopf_engine::invocation::{Call, SubHandlers};
use pyo3::exceptions::PyLookupError;
use pyo3::prelude::*;
use serde_json::Value;
use tracing::Instrument as _;

use crate::declare::declaring::handler;
use crate::declare::filters::lifecycle as as_lifecycle;
use crate::front::raised::take_displayed;
use crate::front::resolving::{Failure, resolve};
use crate::objects::call::PyCall;

/// Runs the registered or the given sub-handlers of a call in the thread of the event loop, and
/// resolves the future.
#[pyfunction]
#[pyo3(signature = (call, specs, lifecycle, future))]
pub(crate) fn execute(
    call: &Bound<'_, PyCall>,
    specs: Option<Vec<Bound<'_, PyAny>>>,
    lifecycle: Option<&Bound<'_, PyAny>>,
    future: Bound<'_, PyAny>,
) -> PyResult<()> {
    let (py, call) = (call.py(), call.get());
    let (front, span) = (&call.front, call.job()?.span());
    let subs = subs(call.call()?)?;
    let running = match specs {
        None => subs.execute(),
        Some(specs) => {
            let handlers = specs.iter().map(|spec| handler(front, spec));
            let handlers = handlers.collect::<PyResult<Vec<_>>>()?;
            let lifecycle = lifecycle.map(|given| as_lifecycle(front, given));
            let lifecycle = lifecycle.transpose()?;
            subs.execute_these(handlers, lifecycle)
        }
    };
    let (resolver, future) = (Arc::clone(front), future.unbind());
    let awaited = future.clone_ref(py);
    let work = async move {
        let result = match running.await {
            Ok(()) => Ok(Value::Null),
            Err(HandlerError::Unfinished { delay }) => {
                Err(Failure::Unfinished(delay.map(|delay| delay.as_secs_f64())))
            }
            Err(error) => {
                // The exception of a filter, a storage or a lifecycle, if any.
                let text = error.to_string();
                let raised = take_displayed(&text).map(Failure::Raised);
                Err(raised.unwrap_or(Failure::Other("permanent", text)))
            }
        };
        resolve(&resolver, &future, result);
    };
    front.host_for(py, &awaited, work.instrument(span))
}

/// Returns the sub-handlers of a call.
fn subs(call: &Call) -> PyResult<&SubHandlers> {
    call.subs
        .as_ref()
        .ok_or_else(|| PyLookupError::new_err("only change handlers can have sub-handlers"))
}
