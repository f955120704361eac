//! Conversion of handlers from Python to handlers of the engine.
//!
//! `kopf._front.bridge.lowering` describes each handler as a dict with the keys that are read here.

use std::sync::Arc;
use std::time::Duration;

use kopf_core::admission::{Operation, WebhookType};
use kopf_core::field::FieldPath;
use kopf_core::filter::Filters;
use kopf_core::handler::{
    Activity, Cancellation, Conversion, ErrorsMode, FunctionId, HandlerKind, HandlerSpec,
    InitialDelay, Reconciliation, Retrying, Timing, Webhook,
};
use kopf_core::outcome::HandlerError;
use kopf_core::selector::{Predicate, Selector, SelectorSpec};
use kopf_engine::indexing::{AnyIndex, Indices};
use kopf_engine::invocation::{Call, Function as Invocable, Handler, Registry, SubHandlers};
use kopf_engine::operator::Declarations;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyLookupError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use serde_json::Value;
use tracing::{Instrument as _, Span};

use crate::filters::{Callback, criteria, lifecycle, value_criterion};
use crate::front::Front;
use crate::indexing::PyIndex;
use crate::job::{Function, Invocation};
use crate::raised::take_displayed;
use crate::resolving::{Failure, resolve};

/// Converts all handlers and creates their indices.
pub(crate) fn declarations(
    front: &Arc<Front>,
    specs: &[Bound<'_, PyDict>],
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

/// Converts one handler.
pub(crate) fn handler(front: &Arc<Front>, spec: &Bound<'_, PyDict>) -> PyResult<Handler> {
    let declared: Py<PyAny> = need(spec, "handler")?;
    let callback = |function: Py<PyAny>| {
        Python::attach(|py| Callback {
            front: Arc::clone(front),
            handler: declared.clone_ref(py),
            function,
        })
    };
    let run: Invocable = Arc::new(Invocation(Arc::new(Function {
        front: Arc::clone(front),
        handler: declared.clone_ref(spec.py()),
        is_async: need(spec, "is_async")?,
    })));
    let filters = Filters {
        labels: criteria(spec, "labels", &callback)?,
        annotations: criteria(spec, "annotations", &callback)?,
        field: get::<Vec<String>>(spec, "field")?.map(FieldPath::from_iter),
        value: value_criterion(spec, "value", &callback)?,
        old: value_criterion(spec, "old", &callback)?,
        new: value_criterion(spec, "new", &callback)?,
        when: get(spec, "when")?.map(|function| Arc::new(callback(function)) as _),
    };
    let initial_delay = match get::<Bound<'_, PyAny>>(spec, "initial_delay")? {
        None => None,
        Some(delay) if delay.is_callable() => {
            Some(InitialDelay::Function(Arc::new(callback(delay.unbind()))))
        }
        Some(delay) => Some(InitialDelay::Fixed(duration(&delay)?)),
    };
    let spec = HandlerSpec {
        id: need::<String>(spec, "id")?.into(),
        function: FunctionId::Number(need(spec, "function")?),
        kind: kind(spec)?,
        selector: get(spec, "selector")?
            .map(|given| selector(front, &given))
            .transpose()?,
        owns: get::<Vec<Bound<'_, PyDict>>>(spec, "owns")?
            .unwrap_or_default()
            .iter()
            .map(|given| selector(front, given))
            .collect::<PyResult<_>>()?,
        filters,
        retrying: Retrying {
            errors: errors_mode(spec)?,
            timeout: seconds(spec, "timeout")?,
            retries: get(spec, "retries")?,
            backoff: seconds(spec, "backoff")?,
        },
        initial_delay,
        webhook: webhook(spec)?,
        conversion: conversion(spec)?,
        param: None,
    };
    Ok(Handler { spec, run })
}

/// Returns the sub-handlers of a call.
pub(crate) fn subs(call: &Call) -> PyResult<&SubHandlers> {
    call.subs
        .as_ref()
        .ok_or_else(|| PyLookupError::new_err("only change handlers can have sub-handlers"))
}

/// Runs sub-handlers in the thread of the event loop and resolves the future.
pub(crate) fn execute(
    front: &Arc<Front>,
    (call, span): (&Call, Span),
    specs: Option<Vec<Bound<'_, PyDict>>>,
    given: Option<&Bound<'_, PyAny>>,
    future: Bound<'_, PyAny>,
) -> PyResult<()> {
    let (py, subs) = (future.py(), subs(call)?);
    let running = match specs {
        None => subs.execute(),
        Some(specs) => {
            let handlers = specs.iter().map(|spec| handler(front, spec));
            let handlers = handlers.collect::<PyResult<Vec<_>>>()?;
            let lifecycle = given.map(|given| lifecycle(front, given)).transpose()?;
            subs.execute_these(handlers, lifecycle)
        }
    };
    let (resolver, future) = (Arc::clone(front), future.unbind());
    let awaited = future.clone_ref(py);
    let work = async move {
        let result = match running.await {
            Ok(()) => Ok(Value::Null),
            Err(HandlerError::Unfinished { delay }) => {
                Err(Failure::Unfinished(delay.map(|delay| delay.as_secs_f64())))
            }
            Err(error) => {
                // The exception of a filter, a storage or a lifecycle, if any.
                let text = error.to_string();
                let raised = take_displayed(&text).map(Failure::Raised);
                Err(raised.unwrap_or(Failure::Other("permanent", text)))
            }
        };
        resolve(&resolver, &future, result);
    };
    front.host_for(py, &awaited, work.instrument(span))
}

pub(crate) fn kind(spec: &Bound<'_, PyDict>) -> PyResult<HandlerKind> {
    let name: String = need(spec, "kind")?;
    let flag = |key: &str| -> PyResult<bool> { Ok(get(spec, key)?.unwrap_or(false)) };
    Ok(match &*name {
        "startup" => HandlerKind::Activity(Activity::Startup),
        "cleanup" => HandlerKind::Activity(Activity::Cleanup),
        "authentication" => HandlerKind::Activity(Activity::Authentication),
        "probe" => HandlerKind::Activity(Activity::Probe),
        "event" => HandlerKind::Event,
        "child" => HandlerKind::Child,
        "index" => HandlerKind::Index,
        "create" => HandlerKind::Create,
        "update" => HandlerKind::Update,
        "delete" => HandlerKind::Delete {
            optional: flag("optional")?,
        },
        "resume" => HandlerKind::Resume {
            deleted: flag("deleted")?,
        },
        "field" => HandlerKind::Field,
        "sub" => HandlerKind::Sub {
            needs_change: flag("needs_change")?,
        },
        "daemon" => HandlerKind::Daemon(Cancellation {
            backoff: seconds(spec, "cancellation_backoff")?,
            timeout: seconds(spec, "cancellation_timeout")?,
            polling: seconds(spec, "cancellation_polling")?,
        }),
        "timer" => HandlerKind::Timer(Timing {
            interval: seconds(spec, "interval")?,
            sharp: flag("sharp")?,
            idle: seconds(spec, "idle")?,
        }),
        "reconcile" => HandlerKind::Reconcile(Reconciliation {
            every: seconds(spec, "every")?,
            finalizer: flag("finalizer")?,
        }),
        "convert" => HandlerKind::Convert,
        "validating" => HandlerKind::Admission(WebhookType::Validating),
        "mutating" => HandlerKind::Admission(WebhookType::Mutating),
        other => {
            let text = format!("unknown kind of handlers {other:?}");
            return Err(PyValueError::new_err(text));
        }
    })
}

fn errors_mode(spec: &Bound<'_, PyDict>) -> PyResult<Option<ErrorsMode>> {
    Ok(match get::<String>(spec, "errors")?.as_deref() {
        None => None,
        Some("IGNORED") => Some(ErrorsMode::Ignored),
        Some("PERMANENT") => Some(ErrorsMode::Permanent),
        Some(_) => Some(ErrorsMode::Temporary),
    })
}

/// Converts a selector of resources.
pub(crate) fn selector(front: &Arc<Front>, given: &Bound<'_, PyDict>) -> PyResult<Selector> {
    let predicate = match get::<Py<PyAny>>(given, "callable")? {
        None => None,
        Some(function) => {
            let front = Arc::clone(front);
            Some(
                Arc::new(move |resource: &_| crate::filters::selects(&front, &function, resource))
                    as _,
            )
        }
    };
    selector_with(given, predicate)
}

/// Converts a selector of resources with this function as its predicate.
pub(crate) fn selector_with(
    given: &Bound<'_, PyDict>,
    predicate: Option<Predicate>,
) -> PyResult<Selector> {
    let own = SelectorSpec {
        positional: get::<String>(given, "any_name")?.into_iter().collect(),
        group: get(given, "group")?,
        version: get(given, "version")?,
        kind: get(given, "kind")?,
        plural: get(given, "plural")?,
        singular: get(given, "singular")?,
        shortcut: get(given, "shortcut")?,
        category: get(given, "category")?,
        everything: get(given, "everything")?.unwrap_or(false),
        predicate,
    };
    let wrong = |error| PyValueError::new_err(format!("invalid selector: {error}"));
    own.build().map_err(wrong)
}

/// Returns the versions of a conversion handler; `None` for other handlers.
pub(crate) fn conversion(spec: &Bound<'_, PyDict>) -> PyResult<Option<Conversion>> {
    let (source, target) = (get(spec, "source")?, get(spec, "target")?);
    Ok(source
        .zip(target)
        .map(|(source, target)| Conversion { source, target }))
}

/// Returns the properties of an admission handler; the defaults for other handlers.
pub(crate) fn webhook(spec: &Bound<'_, PyDict>) -> PyResult<Webhook> {
    let flag = |key: &str| -> PyResult<bool> { Ok(get(spec, key)?.unwrap_or(false)) };
    let mut webhook = Webhook::default();
    if let Some(operations) = get::<Vec<String>>(spec, "operations")? {
        let operations = operations.iter().map(|name| name.parse::<Operation>());
        let operations = operations.collect::<Result<Vec<_>, _>>();
        let wrong = |error: kopf_core::admission::UnknownOperation| {
            PyValueError::new_err(error.to_string())
        };
        webhook.add_operations(operations.map_err(wrong)?);
    }
    webhook.subresource = get(spec, "subresource")?;
    webhook.persistent = flag("persistent")?;
    webhook.side_effects = flag("side_effects")?;
    webhook.ignore_failures = flag("ignore_failures")?;
    Ok(webhook)
}

/// Returns an entry of a dict; `None` if it is absent or `None`.
pub(crate) fn get<'py, T: FromPyObjectOwned<'py>>(
    dict: &Bound<'py, PyDict>,
    key: &str,
) -> PyResult<Option<T>> {
    match dict.get_item(key)? {
        Some(value) if !value.is_none() => match extract(&value) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(PyValueError::new_err(format!("{key}: {error}"))),
        },
        _ => Ok(None),
    }
}

/// Extracts an owned value.
pub(crate) fn extract<'py, T: FromPyObjectOwned<'py>>(value: &Bound<'py, PyAny>) -> PyResult<T> {
    value.extract().map_err(Into::into)
}

/// Returns a required entry of a dict.
pub(crate) fn need<'py, T: FromPyObjectOwned<'py>>(
    dict: &Bound<'py, PyDict>,
    key: &str,
) -> PyResult<T> {
    get(dict, key)?.ok_or_else(|| PyValueError::new_err(format!("{key} is missing")))
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

fn seconds(dict: &Bound<'_, PyDict>, key: &str) -> PyResult<Option<Duration>> {
    let value = get::<Bound<'_, PyAny>>(dict, key)?;
    let named = |error: PyErr| PyValueError::new_err(format!("{key}: {error}"));
    value
        .map(|value| duration(&value).map_err(named))
        .transpose()
}
