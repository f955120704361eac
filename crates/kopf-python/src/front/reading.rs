//! Reading of options: entries of dicts, fields of objects, durations.

use std::time::Duration;

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

/// Returns an entry of a dict; `None` if it is absent or `None`.
pub(crate) fn get<'py, T: FromPyObjectOwned<'py>>(
    dict: &Bound<'py, PyDict>,
    key: &str,
) -> PyResult<Option<T>> {
    match dict.get_item(key)? {
        Some(value) if !value.is_none() => extract(&value).map(Some).map_err(|e| named(key, &e)),
        _ => Ok(None),
    }
}

/// Returns a required entry of a dict.
pub(crate) fn need<'py, T: FromPyObjectOwned<'py>>(
    dict: &Bound<'py, PyDict>,
    key: &str,
) -> PyResult<T> {
    get(dict, key)?.ok_or_else(|| PyValueError::new_err(format!("{key} is missing")))
}

/// Returns a field of an object. The error names the field.
pub(crate) fn field<'py, T: FromPyObjectOwned<'py>>(
    object: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> PyResult<T> {
    let value = object.getattr(name)?;
    extract(&value).map_err(|error| named(&name.to_string_lossy(), &error))
}

/// Extracts an owned value.
pub(crate) fn extract<'py, T: FromPyObjectOwned<'py>>(value: &Bound<'py, PyAny>) -> PyResult<T> {
    value.extract().map_err(Into::into)
}

fn named(name: &str, error: &PyErr) -> PyErr {
    PyValueError::new_err(format!("{name}: {error}"))
}

/// A duration: a number of seconds, or a timedelta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seconds(pub(crate) Duration);

impl<'py> FromPyObject<'_, 'py> for Seconds {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        duration(&given).map(Self)
    }
}

/// Converts a number of seconds or a timedelta.
pub(crate) fn duration(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let total = PyString::intern(value.py(), "total_seconds");
    let seconds: f64 = match value.getattr_opt(total)? {
        Some(total) => total.call0()?.extract()?,
        None => value.extract()?,
    };
    if seconds.is_nan() || seconds < 0.0 {
        let text = format!("invalid duration {seconds}: must be a non-negative number of seconds");
        return Err(PyValueError::new_err(text));
    }
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}
