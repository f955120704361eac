//! A guard that marks a daemon or timer as ended.

use std::sync::Arc;

use kopf_core::background::StopReason;
use kopf_core::wording;

use super::runner::Runner;
use crate::inspect::{Counted, Guard};
use crate::metrics::TaskCount;

/// Owned by the task of a runner. Dropping it, including by an abort, marks the runner as ended.
#[derive(Debug)]
pub(super) struct ExitGuard {
    runner: Arc<Runner>,
    _counted: Guard,
    _task: Option<TaskCount>,
}

impl ExitGuard {
    pub(super) fn new(runner: Arc<Runner>) -> Self {
        let counted = runner.object.daemons.inspect.count(runner.counted());
        let task = runner
            .object
            .daemons
            .context()
            .metrics
            .task(&runner.handler);
        Self {
            runner,
            _counted: counted,
            _task: task,
        }
    }
}

impl Drop for ExitGuard {
    fn drop(&mut self) {
        let runner = &self.runner;
        let object = &runner.object;
        let logger = object.logger.local();
        let was_told = runner.stopped.is_set();
        if !was_told {
            logger.debug(wording::exited_on_its_own(runner.label()));
        } else if runner.counted() == Counted::Daemon {
            logger.debug(wording::exited_on_request(runner.label()));
        }
        let mut state = object.state();
        state.leave(runner, !was_told);
        state.release_live();
        drop(state);
        object.daemons.leave(runner);
        // Threads that still run can read the flag, too.
        runner.stopped.set(StopReason::DONE);
        if was_told {
            object.exits.notify_one();
        }
    }
}
