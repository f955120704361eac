//! Memos of this frontend: JSON values by string keys.

use std::sync::Arc;

use kopf_core::sync::Mutex;
use kopf_engine::invocation::{Call, FilterContext};
use kopf_engine::memos::{Memo, MemoFactory};
use serde_json::{Map, Value};

/// The memo of an object or of the operator.
pub(crate) type Notes = Mutex<Map<String, Value>>;

/// A factory of memos. The operator's memo begins with these values, those of objects with a copy
/// of it.
#[derive(Clone, Default)]
pub(crate) struct Notebook(pub(crate) Map<String, Value>);

impl MemoFactory for Notebook {
    fn for_operator(&self) -> Memo {
        Arc::new(Mutex::new(self.0.clone()))
    }

    fn for_object(&self, operator: &Memo) -> Memo {
        let notes = operator.downcast_ref::<Notes>();
        let notes = notes.expect("the operator has a memo");
        let notes = notes.lock();
        Arc::new(Mutex::new(notes.clone()))
    }
}

/// Reads and writes the memo of the object of a call.
pub(crate) fn notes<R>(call: &Call, action: impl FnOnce(&mut Map<String, Value>) -> R) -> R {
    let notes = call.memo.get().downcast_ref::<Notes>();
    let notes = notes.expect("all memos are notes");
    action(&mut notes.lock())
}

/// Returns the memo of the object that a filter checks.
pub(crate) fn notes_of(context: &FilterContext) -> Map<String, Value> {
    let notes = context.memo.get().downcast_ref::<Notes>();
    let notes = notes.expect("all memos are notes");
    notes.lock().clone()
}
