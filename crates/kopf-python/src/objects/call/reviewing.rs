//! The arguments and warnings of admission handlers.

use std::sync::Arc;

use kopf_core::admission::Operation;
use kopf_engine::invocation::Admission;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::Value;

use crate::front::convert::to_python;
use crate::objects::bodies::ReviewedSource;

/// Returns the sources of the old and the new object.
pub(super) fn sources(admission: &Admission) -> (Option<ReviewedSource>, Option<ReviewedSource>) {
    let review = &admission.review;
    let (old, new) = review.orders();
    let source = |value: &Option<Arc<Value>>, order| {
        let value = value.clone();
        value.map(|value| ReviewedSource::new(value, order))
    };
    (source(&review.old, old), source(&review.new, new))
}

/// Returns the parts of the request by the names of the arguments.
pub(super) fn parts<'py>(py: Python<'py>, admission: &Admission) -> PyResult<Bound<'py, PyDict>> {
    let review = &admission.review;
    let parts = PyDict::new(py);
    let operation = review.operation.map(Operation::as_str);
    parts.set_item(intern!(py, "operation"), operation)?;
    parts.set_item(intern!(py, "subresource"), &review.subresource)?;
    parts.set_item(intern!(py, "dryrun"), review.dryrun)?;
    parts.set_item(intern!(py, "userinfo"), to_python(py, &review.userinfo)?)?;
    parts.set_item(intern!(py, "headers"), &review.headers)?;
    let empty = Value::Object(serde_json::Map::new());
    let sslpeer = review.sslpeer.as_ref().unwrap_or(&empty);
    parts.set_item(intern!(py, "sslpeer"), to_python(py, sslpeer)?)?;
    Ok(parts)
}

/// Replaces the warnings after a call: those that are known already are the first ones.
pub(super) fn warn(admission: &Admission, warnings: Vec<String>) {
    let known = admission.warnings.list().len();
    for warning in warnings.into_iter().skip(known) {
        admission.warnings.push(warning);
    }
}
