//! The shared resources for calling handlers, and their use in one cycle.

use std::sync::Arc;

use kopf_core::cause::Cause;
use kopf_core::handler::HandlerId;
use kopf_core::lifecycle::Lifecycle;
use kopf_core::patch::Patch;
use kopf_core::trigger::Triggers;

use super::{AttemptLog, BlockingPool, Contributions, UnsavedRecords};
use crate::invocation::{FilterContext, OperatorContext, OwnedObject, SharedPatch, Slot};
use crate::leading::Pass;
use crate::logger::ObjectLogger;
use crate::memos::MemoCell;

/// Maximum number of blocking daemons. They hold their threads as long as their objects exist, so
/// `execution.max_workers` does not apply: the daemons of the next objects would never start.
const DAEMON_THREADS: usize = 512;

/// The shared resources for calling handlers, created once per run of an operator.
#[derive(Debug)]
pub(crate) struct Executor {
    /// Context of all handlers and filters.
    pub(crate) context: Arc<OperatorContext>,
    /// Selects among the due handlers of a cycle.
    pub(crate) lifecycle: Arc<dyn Lifecycle>,
    /// Threads of blocking handlers and reviews.
    pub(crate) pool: BlockingPool,
    /// Threads of blocking daemons, which hold them as long as their objects exist.
    pub(crate) daemon_pool: BlockingPool,
}

impl Executor {
    /// Creates an executor that uses this pool for all handlers except daemons.
    pub(crate) fn new(
        context: Arc<OperatorContext>,
        lifecycle: Arc<dyn Lifecycle>,
        pool: BlockingPool,
    ) -> Self {
        Self {
            context,
            lifecycle,
            pool,
            daemon_pool: BlockingPool::new(Some(DAEMON_THREADS)),
        }
    }
}

/// The calls of handlers in one cycle of one object. Cheap to clone: clones share the patch.
#[derive(Debug, Clone)]
pub(crate) struct Execution {
    pub(super) executor: Arc<Executor>,
    pub(super) cause: Arc<Cause>,
    pub(crate) patch: SharedPatch,
    pub(super) logger: ObjectLogger,
    pub(super) lifecycle: Arc<dyn Lifecycle>,
    pub(super) memo: MemoCell,
    /// The slot for results that are not JSON.
    pub(super) slot: Slot,
    /// The attempts of this cycle, including sub-handlers.
    pub(crate) attempts: AttemptLog,
    /// The parts of the patch that belong to single handlers.
    pub(crate) contributions: Contributions,
    /// The records of sub-handlers for an asynchronous storage.
    pub(crate) unsaved: UnsavedRecords,
    /// The changed child of the object.
    pub(super) child: Option<Arc<OwnedObject>>,
    /// The handlers to call before their time because a child of the object has changed.
    pub(super) woken: Arc<[HandlerId]>,
    /// The reasons of the call of a reconcile handler.
    pub(super) triggers: Triggers,
    /// Handlers start only while it is valid; `None` for index handlers, which every replica calls.
    pub(super) pass: Option<Pass>,
}

impl Execution {
    /// Creates an execution with an empty patch.
    pub(crate) fn new(
        executor: &Arc<Executor>,
        cause: Cause,
        logger: ObjectLogger,
        memo: MemoCell,
    ) -> Self {
        Self {
            executor: Arc::clone(executor),
            cause: Arc::new(cause),
            patch: SharedPatch::default(),
            logger,
            lifecycle: Arc::clone(&executor.lifecycle),
            memo,
            slot: Slot::default(),
            attempts: AttemptLog::default(),
            contributions: Contributions::default(),
            unsaved: UnsavedRecords::default(),
            child: None,
            woken: Arc::default(),
            triggers: Triggers::NONE,
            pass: None,
        }
    }

    /// Sets the initial patch.
    #[must_use]
    pub(crate) fn with_patch(self, patch: Patch) -> Self {
        Self {
            patch: SharedPatch::new(patch),
            ..self
        }
    }

    /// Sets the changed child of the object.
    #[must_use]
    pub(crate) fn with_child(self, child: Arc<OwnedObject>) -> Self {
        Self {
            child: Some(child),
            ..self
        }
    }

    /// Sets the handlers to call before their time.
    #[must_use]
    pub(crate) fn with_woken(self, woken: Arc<[HandlerId]>) -> Self {
        Self { woken, ..self }
    }

    /// Sets the pass of the object.
    #[must_use]
    pub(crate) fn with_pass(self, pass: Pass) -> Self {
        Self {
            pass: Some(pass),
            ..self
        }
    }

    /// Waits until handlers may start; `false` if another replica handles the object.
    pub(super) async fn may_begin(&self) -> bool {
        match &self.pass {
            Some(pass) => pass.begin().await,
            None => true,
        }
    }

    /// Returns the context for filters and lifecycles.
    pub(super) fn filtering(&self) -> FilterContext {
        let context = Arc::clone(&self.executor.context);
        FilterContext::new(context, self.memo.clone(), &self.logger)
    }
}
