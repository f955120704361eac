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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpreter::{attached, evaluate};

    fn seconds(expression: &str) -> Result<Duration, String> {
        attached(|py| {
            let value = evaluate(py, "import datetime", expression)?;
            Ok(duration(&value).map_err(|error| error.to_string()))
        })
    }

    #[test]
    fn durations_are_numbers_or_timedeltas() {
        assert_eq!(seconds("2"), Ok(Duration::from_secs(2)));
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(
            seconds("datetime.timedelta(minutes=1)"),
            Ok(Duration::from_secs(60))
        );
        assert_eq!(seconds("1e300"), Ok(Duration::MAX));
        assert_eq!(seconds("float('inf')"), Ok(Duration::MAX));
    }

    #[test]
    fn negative_durations_are_rejected() {
        for (given, shown) in [
            ("-1", "-1"),
            ("float('nan')", "NaN"),
            ("datetime.timedelta(seconds=-5)", "-5"),
        ] {
            let text = format!(
                "ValueError: invalid duration {shown}: must be a non-negative number of seconds"
            );
            assert_eq!(seconds(given), Err(text));
        }
        assert!(seconds("'x'").is_err_and(|text| text.starts_with("TypeError: ")));
    }

    #[test]
    fn wrong_entries_are_named() {
        attached(|py| {
            let options = evaluate(py, "", "{'number': 'x', 'none': None, 'flag': True}")?;
            let options = options.cast_into::<PyDict>()?;
            let wrong = get::<u32>(&options, "number").unwrap_err().to_string();
            assert!(
                wrong.starts_with("ValueError: number: TypeError: "),
                "{wrong}"
            );
            assert_eq!(get::<u32>(&options, "none")?, None);
            assert_eq!(get::<u32>(&options, "absent")?, None);
            assert!(need::<bool>(&options, "flag")?);
            let missing = need::<u32>(&options, "none").unwrap_err().to_string();
            assert_eq!(missing, "ValueError: none is missing");
            Ok(())
        });
    }
}
