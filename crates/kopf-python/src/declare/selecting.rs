//! Selectors of resources.
//!
//! Callable selectors are called in the engine's own thread, once for each discovered resource.

use std::sync::Arc;

use kopf_core::resource::Resource;
use kopf_core::selector::{Predicate, Selector, SelectorSpec};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::declare::description::SelectorDescription;
use crate::front::Front;
use crate::front::raised::Raised;

/// Converts a selector of resources.
pub(crate) fn selector(front: &Arc<Front>, given: &SelectorDescription) -> PyResult<Selector> {
    selector_with(given, |function| {
        let front = Arc::clone(front);
        Arc::new(move |resource: &_| selects(&front, &function, resource))
    })
}

/// Converts a selector of resources; a callable one by this function.
pub(crate) fn selector_with(
    given: &SelectorDescription,
    predicate: impl FnOnce(Py<PyAny>) -> Predicate,
) -> PyResult<Selector> {
    let function = given.callable.as_ref();
    let function = function.map(|function| Python::attach(|py| function.clone_ref(py)));
    let own = SelectorSpec {
        positional: given.any_name.iter().cloned().collect(),
        group: given.group.clone(),
        version: given.version.clone(),
        kind: given.kind.clone(),
        plural: given.plural.clone(),
        singular: given.singular.clone(),
        shortcut: given.shortcut.clone(),
        category: given.category.clone(),
        everything: given.everything,
        predicate: function.map(predicate),
    };
    let wrong = |error| PyValueError::new_err(format!("invalid selector: {error}"));
    own.build().map_err(wrong)
}

/// Calls a selector of a user for a discovered resource. Errors are logged and mean `false`.
fn selects(front: &Arc<Front>, function: &Py<PyAny>, resource: &Resource) -> bool {
    let asked = Python::try_attach(|py| {
        let resource = front.resource(py, &Arc::new(resource.clone()))?;
        function.bind(py).call1((resource,))?.is_truthy()
    });
    match asked {
        Some(Ok(answer)) => answer,
        Some(Err(error)) => {
            let error = Raised::new(error);
            tracing::error!(target: "kopf_engine::observation", "A selector has failed for {resource}: {error}");
            false
        }
        // The interpreter is shutting down.
        None => false,
    }
}
