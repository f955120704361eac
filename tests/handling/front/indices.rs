//! Indices of this front: values under texts.

use std::any::Any;
use std::sync::Arc;

use kopf_core::handler::HandlerKind;
use kopf_engine::indexing::{AnyIndex, Entries, Index, Indices};
use kopf_engine::invocation::{Call, HandlerResult};
use serde_json::Value;

use super::Declaration;

/// What is kept for every index handler of this front.
pub(crate) type Texts = Index<String, Value>;

/// Empty indices for these handlers.
pub(crate) fn indices(handlers: &[Declaration]) -> Indices {
    let kept = handlers
        .iter()
        .filter(|handler| handler.kind == HandlerKind::Index);
    let index = || Arc::new(Texts::default()) as Arc<dyn AnyIndex>;
    kept.map(|handler| (&*handler.id, index())).collect()
}

/// Success of an index handler with these entries.
#[allow(clippy::unnecessary_wraps, reason = "it is one of several outcomes")]
pub(crate) fn indexed(call: &Call, entries: Value) -> HandlerResult {
    let Value::Object(entries) = entries else {
        panic!("cases give objects");
    };
    let entries: Vec<(String, Value)> = entries.into_iter().collect();
    let entries: Entries = Box::new(entries);
    call.slot.put(entries);
    Ok(None)
}

/// An index, as a handler sees it.
pub(crate) fn look(indices: &Indices, id: &str) -> Arc<Texts> {
    let index = indices.get(id).expect("cases ask for indices they have");
    let index: Arc<dyn Any + Send + Sync> = Arc::clone(index) as _;
    index.downcast().expect("all indices here are of this type")
}
