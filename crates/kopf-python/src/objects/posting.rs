//! References to objects in Kubernetes events.

use kopf_core::reference::ObjectReference;
use pyo3::prelude::*;
use pyo3::types::PyMapping;

/// Reads a reference from a mapping.
pub(crate) fn reference(value: &Bound<'_, PyAny>) -> PyResult<ObjectReference> {
    let mapping = value.cast::<PyMapping>()?;
    let get = |key: &str| -> PyResult<_> {
        let text: Option<String> = match mapping.get_item(key) {
            Ok(value) => value.extract()?,
            Err(_) => None,
        };
        Ok(text.map(Into::into))
    };
    let mut reference = ObjectReference::default();
    reference.api_version = get("apiVersion")?;
    reference.kind = get("kind")?;
    reference.name = get("name")?;
    reference.uid = get("uid")?;
    reference.namespace = get("namespace")?;
    Ok(reference)
}
