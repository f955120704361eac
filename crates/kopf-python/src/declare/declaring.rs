//! Conversion of handlers from Python to handlers of the engine.

use std::sync::Arc;

use kopf_core::filter::Filters;
use kopf_core::handler::{
    ErrorsMode, FunctionId, HandlerKind, HandlerSpec, InitialDelay, Retrying,
};
use kopf_engine::indexing::{AnyIndex, Indices};
use kopf_engine::invocation::{Function as Invocable, Handler, Registry};
use kopf_engine::operator::Declarations;
use pyo3::prelude::*;

use crate::declare::description::{Criterion, HandlerDescription, Kind, SelectorDescription};
use crate::declare::filters::{Callback, criteria, value_criterion};
use crate::declare::indexing::PyIndex;
use crate::declare::selecting::selector;
use crate::front::Front;
use crate::front::job::{Function, Invocation};
use crate::front::reading::duration;

/// Converts all handlers and creates their indices.
pub(crate) fn declarations(
    front: &Arc<Front>,
    specs: &[Bound<'_, PyAny>],
) -> PyResult<Declarations> {
    let mut registry = Registry::default();
    let mut indices: Vec<(Arc<str>, Arc<dyn AnyIndex>)> = Vec::new();
    for spec in specs {
        let handler = handler(front, spec)?;
        let is_known = indices.iter().any(|(id, _)| *id == handler.id);
        if handler.kind == HandlerKind::Index && !is_known {
            let index = PyIndex::new(Arc::clone(front), Arc::clone(&handler.id));
            indices.push((Arc::clone(&handler.id), Arc::new(index)));
        }
        registry.add(handler);
    }
    let indices: Indices = indices.into_iter().collect();
    Ok(Declarations::new(registry, indices))
}

/// Converts one handler. Errors have a note with the handler.
pub(crate) fn handler(front: &Arc<Front>, given: &Bound<'_, PyAny>) -> PyResult<Handler> {
    convert(front, given).inspect_err(|error| {
        let id = given.getattr("id").map(|id| id.to_string());
        let note = format!(
            "in the handler {}",
            id.unwrap_or_else(|_| given.to_string())
        );
        // The error itself is more important than the note.
        let _ = error.add_note(given.py(), note);
    })
}

fn convert(front: &Arc<Front>, given: &Bound<'_, PyAny>) -> PyResult<Handler> {
    let py = given.py();
    let given: HandlerDescription = given.extract()?;
    let callback = |function: &Py<PyAny>| Callback {
        front: Arc::clone(front),
        handler: given.handler.clone_ref(py),
        function: function.clone_ref(py),
    };
    let run: Invocable = Arc::new(Invocation(Arc::new(Function {
        front: Arc::clone(front),
        handler: given.handler.clone_ref(py),
        is_async: given.is_async,
    })));
    let initial_delay = match given.kind.initial_delay().map(|delay| delay.bind(py)) {
        None => None,
        Some(delay) if delay.is_callable() => {
            let delay = callback(delay.as_unbound());
            Some(InitialDelay::Function(Arc::new(delay)))
        }
        Some(delay) => Some(InitialDelay::Fixed(duration(delay)?)),
    };
    let select = |given: &SelectorDescription| selector(front, given);
    let target = given.kind.target();
    let spec = HandlerSpec {
        id: given.id.as_str().into(),
        function: FunctionId::Number(given.function),
        kind: given.kind.handled()?,
        selector: target
            .and_then(|target| target.selector.as_ref())
            .map(select)
            .transpose()?,
        owns: given
            .kind
            .owns()
            .iter()
            .map(select)
            .collect::<PyResult<_>>()?,
        filters: filters(py, &given.kind, &callback)?,
        retrying: Retrying {
            errors: given.errors.as_deref().map(errors_mode),
            timeout: given.timeout.map(|timeout| timeout.0),
            retries: given.retries,
            backoff: given.backoff.map(|backoff| backoff.0),
        },
        initial_delay,
        webhook: given.kind.webhook()?,
        conversion: given.kind.conversion(),
        param: None,
    };
    Ok(Handler { spec, run })
}

fn filters(
    py: Python<'_>,
    kind: &Kind,
    callback: &dyn Fn(&Py<PyAny>) -> Callback,
) -> PyResult<Filters> {
    let mut filters = Filters::default();
    let value = |given: &Option<Criterion>| {
        let given = given.as_ref();
        given
            .map(|given| value_criterion(py, given, callback))
            .transpose()
    };
    if let Some(target) = kind.target() {
        filters.labels = criteria(py, &target.labels, callback)?;
        filters.annotations = criteria(py, &target.annotations, callback)?;
        filters.field = target.field_path();
        filters.value = value(&target.value)?;
        filters.when = target
            .when
            .as_ref()
            .map(|when| Arc::new(callback(when)) as _);
    }
    if let Some(change) = kind.change() {
        filters.old = value(&change.old)?;
        filters.new = value(&change.new)?;
    }
    Ok(filters)
}

fn errors_mode(name: &str) -> ErrorsMode {
    match name {
        "IGNORED" => ErrorsMode::Ignored,
        "PERMANENT" => ErrorsMode::Permanent,
        _ => ErrorsMode::Temporary,
    }
}
