//! The interpreter that the tests of this crate embed. `build.rs` finds its library.

use pyo3::prelude::*;
use pyo3::types::PyDict;

#[link(name = "kopf_test_python")]
#[allow(unsafe_code, reason = "the block is empty: it only names the library")]
unsafe extern "C" {}

/// Calls a function in the interpreter, which is started if necessary.
pub(crate) fn attached<T>(function: impl for<'py> FnOnce(Python<'py>) -> PyResult<T>) -> T {
    Python::initialize();
    Python::attach(|py| match function(py) {
        Ok(value) => value,
        Err(error) => {
            error.display(py);
            panic!("{error}");
        }
    })
}

/// Returns the value of a Python expression, after the statements.
pub(crate) fn evaluate<'py>(
    py: Python<'py>,
    statements: &str,
    expression: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let names = PyDict::new(py);
    let text = |text: &str| std::ffi::CString::new(text).map_err(PyErr::from);
    py.run(&text(statements)?, Some(&names), None)?;
    py.eval(&text(expression)?, Some(&names), None)
}
