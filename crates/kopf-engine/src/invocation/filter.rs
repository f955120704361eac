//! Context of callbacks that are not handlers: filters, lifecycles, initial delays.

use std::sync::Arc;

use super::logger::ObjectLogger;
use super::memos::MemoCell;
use super::{Admission, OperatorContext};

/// The context that filters, lifecycles and initial delays of one object receive through
/// `kopf-core`. Filters receive the `param` of their handler as well: see
/// [`WhenFilter::matches_for`](kopf_core::filter::WhenFilter::matches_for).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FilterContext {
    /// Context shared by all handlers of the operator.
    pub operator: Arc<OperatorContext>,
    /// The memo of the object.
    pub memo: MemoCell,
    /// A logger for the object. Its records are not posted as events.
    pub logger: ObjectLogger,
    /// The admission request; only for admission handlers.
    pub admission: Option<Arc<Admission>>,
}

impl FilterContext {
    /// Creates a context for one object.
    pub fn new(operator: Arc<OperatorContext>, memo: MemoCell, logger: &ObjectLogger) -> Self {
        Self {
            operator,
            memo,
            logger: logger.local(),
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
