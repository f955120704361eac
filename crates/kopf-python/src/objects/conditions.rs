//! Status conditions.

use kopf_core::conditions::{Change, Condition, ConditionStatus, apply};
use kopf_core::timestamp;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::front::convert::{from_python, to_python};

/// Type, status, reason, message, generation and time of a condition.
type Given = (String, String, String, String, Option<i64>, String);

/// Returns the list of conditions with the changes applied. A change is a condition to set, or the
/// type of a condition to remove.
///
/// # Errors
/// `ValueError` if a condition is invalid, or the conditions are not a list.
#[pyfunction]
pub(crate) fn apply_conditions<'py>(
    py: Python<'py>,
    conditions: &Bound<'py, PyAny>,
    changes: Vec<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let changes = changes.iter().map(change).collect::<PyResult<Vec<_>>>()?;
    let mut body = json!({"status": {"conditions": from_python(conditions)?}});
    apply(&changes, &mut body).map_err(invalid)?;
    let after = body
        .get_mut("status")
        .and_then(|status| status.get_mut("conditions"))
        .map(Value::take)
        .filter(Value::is_array)
        .unwrap_or_else(|| Value::Array(Vec::new()));
    to_python(py, &after)
}

fn change(given: &Bound<'_, PyAny>) -> PyResult<Change> {
    if let Ok(type_) = given.extract::<String>() {
        return Ok(Change::Remove { type_ });
    }
    let (type_, status, reason, message, generation, now): Given = given.extract()?;
    let status: ConditionStatus = status.parse().map_err(invalid)?;
    let now = timestamp::parse(&now).map_err(invalid)?;
    let condition = Condition::new(type_, status, reason, message, now).map_err(invalid)?;
    Ok(Change::Set(condition.observed(generation)))
}

fn invalid(error: impl std::error::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}
