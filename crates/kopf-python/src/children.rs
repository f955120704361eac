//! Server-side apply of children.

use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::failure::describe;
use kopf_engine::applying::{FieldOwnership, apply_child};
use kopf_engine::invocation::OperatorContext;
use pyo3::prelude::*;
use serde_json::Value;
use tracing::{Instrument as _, Span};

use crate::front::Front;
use crate::resolving::{Failure, resolve_in_order};

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
        let result = match applied {
            Ok(applied) => Ok((applied.object, applied.order)),
            Err(error) => Err(Failure::Other("apply", describe(&error))),
        };
        resolve_in_order(&resolver, &future, result);
    })
}
