//! Server-side apply of children.

use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::failure::describe;
use kopf_engine::applying::{Applied, Effect, Error, FieldOwnership, apply_child};
use kopf_engine::invocation::OperatorContext;
use pyo3::prelude::*;
use serde_json::Value;
use tracing::{Instrument as _, Span};

use crate::front::Front;
use crate::front::convert::to_python_in_order;

/// A child to apply.
pub(crate) struct Applying {
    pub(crate) operator: Arc<OperatorContext>,
    pub(crate) owner: Body,
    pub(crate) manifest: Value,
    pub(crate) ownership: FieldOwnership,
    /// The span of the call that applies the child.
    pub(crate) span: Span,
}

/// Applies a child in the thread of the event loop and resolves the future.
pub(crate) fn apply(
    py: Python<'_>,
    front: &Arc<Front>,
    child: Applying,
    future: Py<PyAny>,
) -> PyResult<()> {
    let (resolver, awaited) = (Arc::clone(front), future.clone_ref(py));
    front.host_for(py, &awaited, async move {
        let Applying {
            operator,
            owner,
            manifest,
            ownership,
            span,
        } = child;
        let applying = apply_child(&operator, &owner, manifest, ownership);
        let applied = applying.instrument(span).await;
        Python::attach(|py| {
            let resolved = match applied {
                Ok(applied) => resolve(py, &resolver, &future, &applied),
                Err(error) => reject(py, &resolver, &future, &error),
            };
            if let Err(error) = resolved {
                error.write_unraisable(py, None);
            }
        });
    })
}

/// Resolves the future with the effect and the stored child.
fn resolve(py: Python<'_>, front: &Front, future: &Py<PyAny>, applied: &Applied) -> PyResult<()> {
    let effect = match applied.effect {
        Effect::Created => "created",
        Effect::Unchanged => "unchanged",
        _ => "changed",
    };
    let object = to_python_in_order(py, &applied.object, applied.order.as_deref())?;
    let arguments = (future, (effect, object));
    front.bridge.call_method1(py, "resolve", arguments)?;
    Ok(())
}

/// Fails the future with the properties of a `kopf.ApplyError`.
fn reject(py: Python<'_>, front: &Front, future: &Py<PyAny>, error: &Error) -> PyResult<()> {
    let mut conflicts = Vec::new();
    let (code, reason) = match error {
        Error::Conflict(conflict) => {
            let fields = conflict.fields.iter();
            conflicts.extend(fields.map(|one| (one.field.as_str(), one.manager.as_str())));
            (Some(409), "Conflict")
        }
        Error::Request { source, .. } => {
            let reason = source.status().map_or("", |status| status.reason.as_str());
            (source.code(), reason)
        }
        Error::UnknownKind { .. } => (None, "UnknownKind"),
        Error::Manifest(_) => (None, "InvalidManifest"),
        _ => (None, ""),
    };
    // Failures without a response, and servers that name no reason.
    let reason = Some(reason).filter(|reason| !reason.is_empty());
    let arguments = (future, describe(error), code, reason, conflicts);
    front.bridge.call_method1(py, "reject_applied", arguments)?;
    Ok(())
}
