//! Memos of this front: notes under texts.

use std::sync::Arc;

use kopf_core::sync::Mutex;
use kopf_engine::invocation::{Call, FilterContext};
use kopf_engine::memos::{Memo, MemoFactory};
use serde_json::{Map, Value};

/// Notes about an object, or about the operator.
pub(crate) type Notes = Mutex<Map<String, Value>>;

/// Objects begin with a copy of the operator's notes, and those with these.
#[derive(Clone, Default)]
pub(crate) struct Notebook(pub(crate) Map<String, Value>);

impl MemoFactory for Notebook {
    fn for_operator(&self) -> Memo {
        Arc::new(Mutex::new(self.0.clone()))
    }

    fn for_object(&self, operator: &Memo) -> Memo {
        let notes = operator.downcast_ref::<Notes>();
        let notes = notes.expect("the operator has notes, too");
        let notes = notes.lock();
        Arc::new(Mutex::new(notes.clone()))
    }
}

/// Reads and writes the notes about the object of a call.
pub(crate) fn notes<R>(call: &Call, action: impl FnOnce(&mut Map<String, Value>) -> R) -> R {
    let notes = call.memo.get().downcast_ref::<Notes>();
    let notes = notes.expect("all memos here are notes");
    action(&mut notes.lock())
}

/// The notes about the object that a filter is asked about.
pub(crate) fn notes_of(context: &FilterContext) -> Map<String, Value> {
    let notes = context.memo.get().downcast_ref::<Notes>();
    let notes = notes.expect("all memos here are notes");
    notes.lock().clone()
}
