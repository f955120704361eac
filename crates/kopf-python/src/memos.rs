//! Memos: objects of Python, created on first use.

use std::sync::Arc;

use kopf_engine::memos::{Memo, MemoFactory};
use pyo3::prelude::*;

/// The memo of the operator or of an object, or the error of its copying.
pub(crate) struct PyMemo(PyResult<Py<PyAny>>);

impl PyMemo {
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match &self.0 {
            Ok(memo) => Ok(memo.clone_ref(py)),
            Err(error) => Err(error.clone_ref(py)),
        }
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
        Arc::new(PyMemo(Ok(memo)))
    }

    fn for_object(&self, operator: &Memo) -> Memo {
        Arc::new(PyMemo(Python::attach(|py| {
            match operator.downcast_ref::<PyMemo>() {
                Some(memo) => self.copy.call1(py, (memo.get(py)?,)),
                None => Ok(py.None()),
            }
        })))
    }
}
