//! One daemon or timer of one object.

use std::fmt;
use std::sync::{Arc, OnceLock};

use kopf_core::handler::{Cancellation, HandlerKind};
use kopf_core::wording;
use tokio::task::AbortHandle;

use super::exit_guard::ExitGuard;
use super::object::Object;
use super::task::RunnerTask;
use crate::inspect::Counted;
use crate::invocation::{Handler, Hosting, LiveBody, Stopped};
use crate::leading::{Pass, Tenure};

/// One daemon or timer of one object, from its start to its end.
pub(crate) struct Runner {
    /// The number among all runners of the operator.
    pub(super) number: u64,
    pub(super) handler: Arc<Handler>,
    pub(super) object: Arc<Object>,
    pub(super) live: LiveBody,
    pub(super) stopped: Stopped,
    /// It is stopped while this tenure is suspended.
    pub(super) tenure: Arc<Tenure>,
    pub(super) task: OnceLock<AbortHandle>,
}

impl Runner {
    /// Starts a runner, unless the operator is stopping.
    pub(super) fn start(object: &Arc<Object>, handler: Arc<Handler>, live: LiveBody, pass: Pass) {
        let daemons = &object.daemons;
        let started = daemons.enter(|number| {
            Arc::new(Self {
                number,
                handler,
                object: Arc::clone(object),
                live,
                stopped: Stopped::new(),
                tenure: Arc::clone(pass.tenure()),
                task: OnceLock::new(),
            })
        });
        let Some(runner) = started else { return };
        object.state().running.push(Arc::clone(&runner));
        let exit = ExitGuard::new(Arc::clone(&runner));
        let work = RunnerTask::new(Arc::clone(&runner), pass);
        let context = daemons.context();
        let hosting = Hosting::of(context, runner.handler.has_callbacks());
        let running = async move {
            // Dropped even if the task is aborted before its first poll.
            let _exit = exit;
            work.run().await;
        };
        // Boxed only if hosted: there can be tens of thousands of runners.
        let task = if hosting.is_native() {
            daemons.tasks.spawn(running)
        } else {
            daemons.tasks.spawn(hosting.run(context, running))
        };
        let _ = runner.task.set(task.abort_handle());
        if daemons.is_closed() {
            // The killer may have listed the runners before this one was added.
            task.abort();
        }
    }

    /// Marks the runner as ended on its own, unless it is being stopped. It may still have to send
    /// a patch; the cycle that the patch triggers must not depend on the runner.
    pub(super) fn retire(&self) {
        let mut state = self.object.state();
        if !self.stopped.is_set() {
            state.leave(self, true);
        }
    }

    /// Returns the name for log records.
    pub(super) fn label(&self) -> impl fmt::Display {
        wording::label(self.handler.kind, &self.handler.id)
    }

    /// Returns the stages of stopping. Timers have none.
    pub(super) fn cancellation(&self) -> Cancellation {
        match self.handler.kind {
            HandlerKind::Daemon(cancellation) => cancellation,
            _ => Cancellation::NONE,
        }
    }

    /// Returns the counter of the runner.
    pub(super) fn counted(&self) -> Counted {
        match self.handler.kind {
            HandlerKind::Daemon(_) => Counted::Daemon,
            _ => Counted::Timer,
        }
    }
}

impl fmt::Debug for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Runner({} of {:?})", self.label(), self.object.logger)
    }
}
