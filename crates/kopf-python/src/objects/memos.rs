//! Memos: objects of Python, created on first use.

use std::sync::Arc;

use kopf_core::sync::Mutex;
use kopf_engine::memos::{Memo, MemoFactory};
use pyo3::prelude::*;

/// The memo of the operator or of an object, or the error of its copying.
pub(crate) struct PyMemo {
    memo: PyResult<Py<PyAny>>,
    variables: Mutex<Option<Py<PyAny>>>,
}

impl PyMemo {
    fn new(memo: PyResult<Py<PyAny>>) -> Self {
        let variables = Mutex::default();
        Self { memo, variables }
    }

    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.memo {
            Ok(memo) => Ok(memo.clone_ref(py)),
            Err(error) => Err(error.clone_ref(py)),
        }
    }

    /// Returns the context variables of the object's handlers, if any were set.
    pub(crate) fn variables(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let variables = self.variables.lock();
        variables.as_ref().map(|object| object.clone_ref(py))
    }

    /// Keeps the context variables of the object's handlers.
    pub(crate) fn set_variables(&self, object: Py<PyAny>) {
        let former = self.variables.lock().replace(object);
        drop(former);
    }
}

/// Factory of memos of objects, which are copies of the operator's memo.
pub(crate) struct PyMemos {
    pub(crate) operator: Py<PyAny>,
    /// `copy.copy`.
    pub(crate) copy: Py<PyAny>,
}

impl MemoFactory for PyMemos {
    fn for_operator(&self) -> Memo {
        let memo = Python::attach(|py| self.operator.clone_ref(py));
        Arc::new(PyMemo::new(Ok(memo)))
    }

    fn for_object(&self, operator: &Memo) -> Memo {
        Arc::new(PyMemo::new(Python::attach(|py| {
            match operator.downcast_ref::<PyMemo>() {
                Some(memo) => self.copy.call1(py, (memo.get(py)?,)),
                None => Ok(py.None()),
            }
        })))
    }
}
