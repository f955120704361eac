//! The namespaces that an operator serves.

use kopf_core::namespace::{NamespacePattern, Scope};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::front::reading::{get, need};

/// Returns the namespaces to serve.
pub(crate) fn scope(options: &Bound<'_, PyDict>) -> PyResult<Scope> {
    if get(options, "clusterwide")?.unwrap_or(false) {
        return Ok(Scope::Cluster);
    }
    let patterns: Vec<Bound<'_, PyAny>> = need(options, "namespaces")?;
    let patterns = patterns.iter().map(|pattern| {
        // Compiled regular expressions are accepted in addition to globs.
        let parsed = match pattern.extract::<String>() {
            Ok(text) => NamespacePattern::parse(&text),
            Err(_) => NamespacePattern::regex(&pattern.getattr("pattern")?.extract::<String>()?),
        };
        parsed.map_err(|error| PyValueError::new_err(error.to_string()))
    });
    Ok(Scope::Namespaces(patterns.collect::<PyResult<_>>()?))
}

/// Checks the name or the pattern of a namespace.
#[pyfunction]
pub(crate) fn check_namespace(text: &str) -> PyResult<()> {
    let pattern = NamespacePattern::parse(text);
    pattern
        .map(drop)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}
