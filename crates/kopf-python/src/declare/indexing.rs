//! Indices. Their content is stored in Python; changes go through the queue before the calls that
//! need them.

use std::sync::Arc;

use kopf_core::handler::HandlerId;
use kopf_engine::indexing::{AnyIndex, Entries, Mismatch, ObjectKey};
use pyo3::prelude::*;

use crate::front::Front;
use crate::front::queue::Entry;

/// An index.
pub(crate) struct PyIndex {
    front: Arc<Front>,
    id: HandlerId,
}

impl PyIndex {
    pub(crate) fn new(front: Arc<Front>, id: HandlerId) -> Self {
        Self { front, id }
    }

    fn push(&self, object: &ObjectKey, entries: Option<Py<PyAny>>) {
        let (front, id) = (Arc::clone(&self.front), Arc::clone(&self.id));
        let object = format!("{object:?}");
        self.front.queue.push(Entry::Run(Box::new(move |py| {
            let bridge = front.bridge.bind(py);
            let result = match entries {
                Some(entries) => bridge.call_method1("index", (&*id, object, entries)),
                None => bridge.call_method1("unindex", (&*id, object)),
            };
            if let Err(error) = result {
                error.write_unraisable(py, None);
            }
        })));
    }
}

impl AnyIndex for PyIndex {
    fn replace(&self, object: &ObjectKey, entries: Entries) -> Result<(), Mismatch> {
        let expected = "Python objects";
        let entries = entries.downcast::<Py<PyAny>>();
        self.push(object, Some(*entries.map_err(|_| Mismatch { expected })?));
        Ok(())
    }

    fn discard(&self, object: &ObjectKey) {
        self.push(object, None);
    }
}
