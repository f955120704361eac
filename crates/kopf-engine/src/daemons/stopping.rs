//! Stopping of daemons and timers: one stage per cycle of the object, or all stages at once.

use std::sync::Arc;
use std::time::Duration;

use kopf_core::background::{Action, StopReason, next_step};
use kopf_core::wording;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::runner::Runner;
use crate::pausing::Pause;

/// Time for runners without time limits to send their last patch.
const LAST_PATCH_TIMEOUT: Duration = Duration::from_secs(1);

impl Runner {
    pub(super) fn has_ended(&self) -> bool {
        self.stopped.reason().contains(StopReason::DONE)
    }

    /// Waits briefly for a runner that ends immediately, which saves a cycle of the object.
    async fn chance_to_end(&self) {
        let settings = &self.object.daemons.context().settings.background;
        if let Some(limit) = settings.instant_exit_timeout {
            let _ = timeout(limit, self.stopped.done()).await;
            return;
        }
        let cycles = settings.instant_exit_zero_time_cycles.unwrap_or(0);
        if self.stopped.is_foreign() {
            // Yields in this runtime return before another scheduler has woken up.
            let limit = Duration::from_millis(u64::from(cycles));
            let _ = timeout(limit, self.stopped.done()).await;
            return;
        }
        for _ in 0..cycles {
            if self.has_ended() {
                return;
            }
            yield_now().await;
        }
    }

    /// Performs a stage.
    fn act(&self, action: Action) {
        let mut reason = action.reason();
        if action == Action::Abandon {
            // The stage of the cancellation may have been skipped.
            reason |= StopReason::DAEMON_CANCELLED;
        }
        self.stopped.set(reason);
        let (logger, label) = (self.object.logger.local(), self.label());
        match action {
            Action::Signal => logger.debug(wording::signalled(label)),
            Action::Cancel => logger.debug(wording::forced(label)),
            Action::Abandon => logger.warning(wording::orphaned(label)),
        }
    }

    /// Performs the stage that is due. Returns the delay before the next one.
    async fn step(&self) -> Option<Duration> {
        let settings = &self.object.daemons.context().settings.background;
        let polling = settings.cancellation_polling;
        let cancellation = self.cancellation();
        let next = || {
            let (age, reasons) = (self.stopped.age(), self.stopped.reason());
            next_step(age, reasons, &cancellation, polling)
        };
        let mut step = next();
        if let Some(action) = step.action {
            self.act(action);
            self.chance_to_end().await;
            step = next();
        }
        if let Some(delay) = step.delay {
            let logger = self.object.logger.local();
            logger.debug(wording::still_exiting(self.label(), delay));
            let (age, is_limited) = (self.stopped.age(), cancellation.timeout.is_some());
            let is_deleted = self.stopped.reason().contains(StopReason::RESOURCE_DELETED);
            if is_deleted && !is_limited && age >= polling {
                let (label, age) = (self.label(), age.as_secs());
                logger.warning(format_args!(
                    "The object is not deleted until {label} ends, which was requested {age} seconds ago."
                ));
            }
        }
        step.delay
    }
}

/// Advances each runner to the stage that is due. Returns the delays before the next stages; empty
/// if all have ended or are abandoned.
pub(super) async fn advance(runners: Vec<Arc<Runner>>, reason: StopReason) -> Vec<Duration> {
    let mut told = false;
    for runner in &runners {
        told |= runner.stopped.set(reason);
    }
    let mut delays = Vec::new();
    for runner in runners {
        if told {
            runner.chance_to_end().await;
        }
        delays.extend(runner.step().await);
    }
    delays
}

/// Stops a daemon until the Lease of its object is renewed, and starts it again then. Dropping it
/// leaves the daemon stopped.
pub(super) async fn suspend(runner: Arc<Runner>, pause: Pause) {
    let (object, handler) = (Arc::clone(&runner.object), Arc::clone(&runner.handler));
    let (tenure, stopped) = (Arc::clone(&runner.tenure), runner.stopped.clone());
    object.state().suspended.push(Arc::clone(&handler));
    stop(runner, StopReason::OPERATOR_PAUSING).await;
    stopped.done().await;
    // After a pause, the cycles of the objects start their daemons.
    if tenure.begin().await
        && !pause.is_paused()
        && let Some(pass) = tenure.enter()
    {
        object.restart(&handler, pass);
    }
}

/// Performs all stages with the delays between them.
pub(super) async fn stop(runner: Arc<Runner>, reason: StopReason) {
    let (stopped, cancellation) = (&runner.stopped, runner.cancellation());
    stopped.set(reason);
    runner.chance_to_end().await;
    let stages = [
        (cancellation.backoff, Action::Signal),
        (cancellation.timeout, Action::Cancel),
    ];
    for (limit, action) in stages {
        if let Some(limit) = limit
            && !runner.has_ended()
        {
            runner.act(action);
            let _ = timeout(limit, stopped.done()).await;
        }
    }
    if (cancellation.backoff, cancellation.timeout) == (None, None) && !runner.has_ended() {
        let _ = timeout(LAST_PATCH_TIMEOUT, stopped.done()).await;
        if reason == StopReason::OPERATOR_PAUSING {
            // The runner is not abandoned: the next start waits for its end.
            return;
        }
    }
    if !runner.has_ended() && !stopped.reason().contains(StopReason::DAEMON_ABANDONED) {
        let (logger, label) = (runner.object.logger.local(), runner.label());
        stopped.set(StopReason::DAEMON_ABANDONED);
        logger.warning(wording::orphaned(label));
    }
}
