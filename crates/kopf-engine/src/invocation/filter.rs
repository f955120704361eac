//! Context of callbacks that are not handlers: filters, lifecycles, initial delays.

use std::sync::Arc;

use super::memos::MemoCell;
use super::{Admission, OperatorContext};

/// The context that filters, lifecycles and initial delays of one object receive through
/// `kopf-core`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FilterContext {
    /// Context shared by all handlers of the operator.
    pub operator: Arc<OperatorContext>,
    /// The memo of the object.
    pub memo: MemoCell,
    /// The admission request; only for handlers for admission.
    pub admission: Option<Arc<Admission>>,
}

impl FilterContext {
    /// Creates a context for one object.
    pub fn new(operator: Arc<OperatorContext>, memo: MemoCell) -> Self {
        Self {
            operator,
            memo,
            admission: None,
        }
    }

    /// Sets the admission request.
    #[must_use]
    pub fn with_admission(self, admission: Arc<Admission>) -> Self {
        Self {
            admission: Some(admission),
            ..self
        }
    }
}
