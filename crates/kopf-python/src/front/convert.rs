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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::interpreter::{attached, evaluate};

    /// Converts the value of a Python expression; the error is its text.
    fn read(expression: &str) -> Result<Value, String> {
        read_after("", expression)
    }

    fn read_after(statements: &str, expression: &str) -> Result<Value, String> {
        attached(|py| {
            let value = evaluate(py, statements, expression)?;
            Ok(from_python(&value).map_err(|error| error.to_string()))
        })
    }

    /// Returns the `repr()` of a converted value.
    fn shown(value: &Value) -> String {
        attached(|py| Ok(to_python(py, value)?.repr()?.to_string()))
    }

    fn wrong(text: &str) -> Result<Value, String> {
        Err(format!("TypeError: {text}"))
    }

    #[test]
    fn json_survives_the_way_to_python_and_back() {
        let value = json!({
            "null": null, "true": true, "false": false, "text": "ä\u{1f600}\0",
            "numbers": [0, -1, i64::MIN, u64::MAX, 0.5, -1e300],
            "nested": [{"a": [[], {}]}, [[1], [2, [3]]]],
        });
        let back = attached(|py| from_python(&to_python(py, &value)?));
        assert_eq!(back, value);
    }

    #[test]
    fn types_of_python_are_those_of_its_json_module() {
        assert_eq!(
            shown(&json!([null, true, 1, 1.0, "x", {"a": []}])),
            "[None, True, 1, 1.0, 'x', {'a': []}]"
        );
        assert_eq!(shown(&json!(u64::MAX)), "18446744073709551615");
    }

    #[test]
    fn integers_have_up_to_64_bits() {
        assert_eq!(read("2**63 - 1"), Ok(json!(i64::MAX)));
        assert_eq!(read("-2**63"), Ok(json!(i64::MIN)));
        assert_eq!(read("2**64 - 1"), Ok(json!(u64::MAX)));
        for beyond in ["2**64", "-2**63 - 1", "10**400"] {
            assert_eq!(
                read(beyond),
                wrong("the value is an integer beyond 64 bits")
            );
        }
        assert_eq!(
            read("{'spec': {'sizes': [1, 2**64]}}"),
            wrong("spec.sizes[1] is an integer beyond 64 bits")
        );
    }

    #[test]
    fn numbers_are_finite() {
        for number in ["float('nan')", "float('inf')", "-float('inf')"] {
            assert_eq!(
                read(number),
                wrong("the value is a number that is not finite")
            );
            assert_eq!(
                read(&format!("{{'a': ({number},)}}")),
                wrong("a[0] is a number that is not finite")
            );
        }
        assert_eq!(read("-0.0"), Ok(json!(-0.0)));
    }

    #[test]
    fn booleans_are_not_integers() {
        assert_eq!(read("[True, False, 1, 0]"), Ok(json!([true, false, 1, 0])));
        assert_eq!(shown(&json!([true, 1])), "[True, 1]");
    }

    #[test]
    fn keys_become_strings_as_by_json_dumps() {
        let keys =
            "{1: 0, -2.5: 0, True: 0, None: 0, float('nan'): 0, -float('inf'): 0, 10**30: 0}";
        let expected = attached(|py| {
            let text = evaluate(py, "import json", &format!("json.dumps({keys})"))?;
            text.extract::<String>()
        });
        // `1` and `True` are equal keys in Python.
        let expected: Value = serde_json::from_str(&expected).unwrap();
        assert_eq!(read(keys), Ok(expected));
        assert_eq!(
            read("{'a': {(1, 2): 0}}"),
            wrong("a is a mapping with a key of type tuple")
        );
        assert_eq!(
            read("{b'a': 0}"),
            wrong("the value is a mapping with a key of type bytes")
        );
    }

    #[test]
    fn members_of_enums_are_their_values() {
        let enums = "
import enum
class Text(enum.StrEnum):
    A = 'a'
class Number(enum.IntEnum):
    ONE = 1
    def __str__(self):
        return 'one'
";
        assert_eq!(
            read_after(enums, "{Text.A: Text.A, Number.ONE: Number.ONE}"),
            Ok(json!({"a": "a", "1": 1}))
        );
    }

    #[test]
    fn other_types_are_named_with_their_place() {
        let imports = "import datetime, decimal";
        for (value, kind) in [
            ("b'x'", "bytes"),
            ("bytearray(b'x')", "bytearray"),
            ("{1, 2}", "set"),
            ("object()", "object"),
            ("1j", "complex"),
            ("datetime.datetime(2020, 1, 1)", "datetime"),
            ("datetime.timedelta(1)", "timedelta"),
            ("decimal.Decimal(1)", "Decimal"),
            ("(item for item in ())", "generator"),
            ("print", "builtin_function_or_method"),
        ] {
            assert_eq!(
                read_after(imports, &format!("{{'spec': [{{'at': {value}}}]}}")),
                wrong(&format!(
                    "spec[0].at is of the type {kind}, which is not JSON"
                ))
            );
        }
    }

    #[test]
    fn strings_with_lone_surrogates_are_rejected() {
        assert_eq!(
            read("['\\ud800']"),
            wrong("[0] is a string with lone surrogates")
        );
        assert_eq!(
            read("{'a': {'\\udfff': 1}}"),
            wrong("a is a mapping with a key with lone surrogates")
        );
    }

    #[test]
    fn values_that_contain_themselves_are_rejected() {
        let text = "ValueError: the value is nested too deeply or contains itself";
        for (statements, value) in [
            ("a = []\na.append(a)", "a"),
            ("a = {}\na['a'] = a", "a"),
            ("a = 0\nfor _ in range(300):\n    a = [a]", "a"),
        ] {
            assert_eq!(read_after(statements, value), Err(text.to_owned()));
        }
        let deep = "a = 0\nfor _ in range(150):\n    a = {'a': [a]}";
        assert_eq!(read_after(deep, "a"), Err(text.to_owned()));
        let flatter = deep.replace("150", "90");
        assert!(read_after(&flatter, "a").is_ok());
    }

    #[test]
    fn mappings_of_users_are_objects_and_their_errors_are_passed_on() {
        let mapping = "
import collections.abc
class Mapping(collections.abc.Mapping):
    def __init__(self, items): self.inner = items
    def __getitem__(self, key): return self.inner[key]
    def __len__(self): return len(self.inner)
    def __iter__(self): return iter(self.inner)
class Broken(Mapping):
    def __getitem__(self, key): raise LookupError(f'no {key}')
";
        assert_eq!(
            read_after(mapping, "Mapping({'a': Mapping({})})"),
            Ok(json!({"a": {}}))
        );
        assert_eq!(
            read_after(mapping, "Broken({'a': 1})"),
            Err("LookupError: no a".to_owned())
        );
    }

    #[test]
    fn keys_keep_their_order() {
        let value = "{'b': [{'d': 1, 'c': 2}], 'a': 3}";
        let shown = attached(|py| {
            let given = evaluate(py, "", value)?;
            let (value, order) = from_python_in_order(&given)?;
            let sorted = to_python(py, &value)?.repr()?.to_string();
            assert_eq!(sorted, "{'a': 3, 'b': [{'c': 2, 'd': 1}]}");
            Ok(to_python_in_order(py, &value, order.as_deref())?
                .repr()?
                .to_string())
        });
        assert_eq!(shown, value);
    }
}
