//! Conversion of JSON values to Python and back.

use std::sync::Arc;

use kopf_core::key_order::{self, KeyOrder, ListReading, Ordered, Reading};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PyNone, PySequence, PyString, PyTuple,
};
use serde_json::{Map, Number, Value};

use crate::front::reading::get;

/// Maximum depth of values, higher than in any Kubernetes object; deeper values are rejected.
const MAX_DEPTH: usize = 200;

/// Converts a JSON value to plain dicts, lists and scalars, with sorted keys.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    to_python_in_order(py, value, None)
}

/// Converts a JSON value to plain dicts, lists and scalars, with the keys in this order.
pub(crate) fn to_python_in_order<'py>(
    py: Python<'py>,
    value: &Value,
    order: Option<&KeyOrder>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => PyNone::get(py).to_owned().into_any(),
        Value::Bool(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::Number(number) => number_to_python(py, number)?,
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for (index, item) in items.iter().enumerate() {
                let inner = order.and_then(|order| order.item(index));
                list.append(to_python_in_order(py, item, inner.map(Arc::as_ref))?)?;
            }
            list.into_any()
        }
        Value::Object(map) => match order {
            None => map_to_python(py, map)?.into_any(),
            Some(order) => {
                let dict = PyDict::new(py);
                for (key, value) in key_order::entries(map, order) {
                    let inner = order.member(key).map(Arc::as_ref);
                    let value = to_python_in_order(py, value, inner)?;
                    dict.set_item(PyString::intern(py, key), value)?;
                }
                dict.into_any()
            }
        },
    })
}

/// Converts a JSON object to a dict with sorted keys.
pub(crate) fn map_to_python<'py>(
    py: Python<'py>,
    map: &Map<String, Value>,
) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (key, value) in map {
        dict.set_item(PyString::intern(py, key), to_python(py, value)?)?;
    }
    Ok(dict)
}

fn number_to_python<'py>(py: Python<'py>, number: &Number) -> PyResult<Bound<'py, PyAny>> {
    if let Some(number) = number.as_i64() {
        return Ok(number.into_pyobject(py)?.into_any());
    }
    if let Some(number) = number.as_u64() {
        return Ok(number.into_pyobject(py)?.into_any());
    }
    Ok(PyFloat::new(py, number.as_f64().unwrap_or(f64::NAN)).into_any())
}

/// Converts a Python value to JSON. The error contains the path inside the value.
pub(crate) fn from_python(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    Ok(from_python_in_order(value)?.0)
}

/// Converts a Python value to JSON, with the order of its keys.
pub(crate) fn from_python_in_order(value: &Bound<'_, PyAny>) -> PyResult<Ordered> {
    convert(value, &mut Vec::new())
}

/// Returns a list of objects; empty if it is absent.
pub(crate) fn objects(options: &Bound<'_, PyDict>, key: &str) -> PyResult<Vec<Value>> {
    let objects: Vec<Bound<'_, PyAny>> = get(options, key)?.unwrap_or_default();
    objects.iter().map(from_python).collect()
}

/// Converts a mapping to a JSON object.
pub(crate) fn map_from_python(value: &Bound<'_, PyAny>) -> PyResult<Map<String, Value>> {
    match from_python(value)? {
        Value::Object(map) => Ok(map),
        _ => Err(PyTypeError::new_err("must be a mapping")),
    }
}

fn convert(value: &Bound<'_, PyAny>, path: &mut Vec<String>) -> PyResult<Ordered> {
    if path.len() > MAX_DEPTH {
        return Err(PyValueError::new_err(
            "the value is nested too deeply or contains itself",
        ));
    }
    if let Some(scalar) = scalar(value, path) {
        return Ok((scalar?, None));
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        let mut reading = Reading::default();
        for (key, item) in dict.iter() {
            insert(&mut reading, &key, &item, path)?;
        }
        return Ok(reading.end());
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let sequence = value.cast::<PySequence>()?;
        let mut reading = ListReading::with_capacity(sequence.len()?);
        for (number, item) in sequence.try_iter()?.enumerate() {
            path.push(format!("[{number}]"));
            let (item, order) = convert(&item?, path)?;
            reading.push(item, order);
            path.pop();
        }
        return Ok(reading.end());
    }
    // Views of bodies and patches, and mappings of users.
    if let Ok(mapping) = value.cast::<PyMapping>() {
        let mut reading = Reading::default();
        for pair in mapping.items()?.iter() {
            let (key, item): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract()?;
            insert(&mut reading, &key, &item, path)?;
        }
        return Ok(reading.end());
    }
    let kind = value.get_type().name()?.to_string();
    Err(wrong(
        path,
        &format!("of the type {kind}, which is not JSON"),
    ))
}

/// Converts a scalar; `None` for other values.
fn scalar(value: &Bound<'_, PyAny>, path: &[String]) -> Option<PyResult<Value>> {
    if value.is_none() {
        return Some(Ok(Value::Null));
    }
    if let Ok(text) = value.cast::<PyString>() {
        let text = text.to_str().map(|text| Value::String(text.to_owned()));
        return Some(text.map_err(|_| wrong(path, "a string with lone surrogates")));
    }
    if value.is_instance_of::<PyBool>() {
        return Some(value.extract().map(Value::Bool));
    }
    if value.is_instance_of::<PyInt>() {
        return Some(integer(value).ok_or_else(|| wrong(path, "an integer beyond 64 bits")));
    }
    if value.is_instance_of::<PyFloat>() {
        let number = value.extract().map(Number::from_f64);
        return Some(number.and_then(|number| {
            number
                .map(Value::Number)
                .ok_or_else(|| wrong(path, "a number that is not finite"))
        }));
    }
    None
}

fn insert(
    reading: &mut Reading,
    key: &Bound<'_, PyAny>,
    item: &Bound<'_, PyAny>,
    path: &mut Vec<String>,
) -> PyResult<()> {
    let key = key_from_python(key, path)?;
    path.push(format!(".{key}"));
    let (value, order) = convert(item, path)?;
    path.pop();
    reading.insert(key, value, order);
    Ok(())
}

/// Converts a key of a mapping as `json.dumps` does: numbers, booleans and `None` become strings.
fn key_from_python(key: &Bound<'_, PyAny>, path: &[String]) -> PyResult<String> {
    if let Ok(text) = key.cast::<PyString>() {
        let text = text.to_str().map(str::to_owned);
        return text.map_err(|_| wrong(path, "a mapping with a key with lone surrogates"));
    }
    if key.is_none() {
        return Ok("null".to_owned());
    }
    if key.is_instance_of::<PyBool>() {
        return Ok(key.extract::<bool>()?.to_string());
    }
    // Enumerations and other subclasses may have other strings, which are not numbers.
    if key.is_instance_of::<PyInt>() {
        let kind = key.py().get_type::<PyInt>();
        return kind.call_method1("__repr__", (key,))?.extract();
    }
    if key.is_instance_of::<PyFloat>() {
        let number: f64 = key.extract()?;
        if number.is_nan() {
            return Ok("NaN".to_owned());
        }
        if number.is_infinite() {
            let text = if number > 0.0 {
                "Infinity"
            } else {
                "-Infinity"
            };
            return Ok(text.to_owned());
        }
        let kind = key.py().get_type::<PyFloat>();
        return kind.call_method1("__repr__", (key,))?.extract();
    }
    let kind = key.get_type().name()?.to_string();
    Err(wrong(path, &format!("a mapping with a key of type {kind}")))
}

fn integer(value: &Bound<'_, PyAny>) -> Option<Value> {
    match value.extract::<i64>() {
        Ok(number) => Some(number.into()),
        Err(_) => value.extract::<u64>().ok().map(Value::from),
    }
}

/// Returns `True` if the value can be converted to JSON.
#[pyfunction]
pub(crate) fn is_json(value: &Bound<'_, PyAny>) -> bool {
    from_python(value).is_ok()
}

fn wrong(path: &[String], what: &str) -> PyErr {
    if path.is_empty() {
        return PyTypeError::new_err(format!("the value is {what}"));
    }
    let place = path.concat();
    PyTypeError::new_err(format!("{} is {what}", place.trim_start_matches('.')))
}
