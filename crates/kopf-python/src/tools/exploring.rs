//! `kopf explore`: the command of `kopf-explore`.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs a command line that begins with `explore`. Writes to the standard output and error of the
/// process. Returns the exit code.
#[pyfunction]
pub(crate) fn explore(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| kopf_explore::command::run_line(arguments))
}
