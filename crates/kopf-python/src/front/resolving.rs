//! Results for futures of asyncio.

use std::sync::Arc;

use kopf_core::key_order::Ordered;
use kopf_core::outcome::Attachment;
use pyo3::prelude::*;
use serde_json::Value;

use crate::front::Front;
use crate::front::convert::to_python_in_order;
use crate::front::job::Exception;

/// The failure of an asyncio future.
pub(crate) enum Failure {
    /// Sub-handlers are unfinished; seconds until the next attempt.
    Unfinished(Option<f64>),
    /// Another failure: the kind of the exception, and the message.
    Other(&'static str, String),
    /// An exception of a callback.
    Raised(Attachment),
}

/// Resolves an asyncio future. Must be called in the thread of the event loop.
pub(crate) fn resolve(front: &Arc<Front>, future: &Py<PyAny>, result: Result<Value, Failure>) {
    resolve_in_order(front, future, result.map(|value| (value, None)));
}

/// Resolves an asyncio future as [`resolve`] does, with the keys of the result in this order.
pub(crate) fn resolve_in_order(
    front: &Arc<Front>,
    future: &Py<PyAny>,
    result: Result<Ordered, Failure>,
) {
    Python::attach(|py| {
        let bridge = &front.bridge;
        let resolved = match result {
            Ok((value, order)) => to_python_in_order(py, &value, order.as_deref())
                .and_then(|value| bridge.call_method1(py, "resolve", (future, value))),
            Err(Failure::Unfinished(delay)) => {
                bridge.call_method1(py, "reject", (future, "unfinished", delay))
            }
            Err(Failure::Other(kind, message)) => {
                bridge.call_method1(py, "reject", (future, kind, message))
            }
            Err(Failure::Raised(exception)) => {
                let exception = Exception::of(py, &exception);
                bridge.call_method1(py, "reject", (future, "raised", exception))
            }
        };
        if let Err(error) = resolved {
            error.write_unraisable(py, None);
        }
    });
}
