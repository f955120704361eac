//! `kopf get`, `explain`, `retrigger`, `release` and `ui`: the commands of `kopf-inspect`.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs a command line that begins with the name of the command. Writes to the standard output and
/// error of the process. Returns the exit code.
#[pyfunction]
pub(crate) fn inspect(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| kopf_inspect::run_line(arguments))
}
