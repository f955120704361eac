//! The daemon killer, which stops daemons and timers outside of the cycles of their objects: when
//! the object is deleted, while the operator is paused, when the Lease of the object is not renewed in
//! time, and when the operator stops.

use std::sync::Arc;
use std::time::Duration;

use kopf_core::background::{StopReason, longest_exit};
use kopf_core::settings::Background;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::stopping::{stop, suspend};
use crate::invocation::Registry;
use crate::leading::Assignments;
use crate::pausing::Pause;

use super::registry::Daemons;

/// Time limit for the remaining runners to end before they are aborted.
const ABORT_DELAY: Duration = Duration::from_secs(5);

/// Interval of checks for new runners while the operator is paused.
const PAUSE_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the time limit for the killer to end.
pub(crate) fn grace(registry: &Registry, settings: &Background) -> Duration {
    let kinds = registry.handlers().iter().map(|handler| handler.kind);
    let chance = settings.instant_exit_timeout.unwrap_or_default();
    let longest = longest_exit(kinds).saturating_add(chance);
    longest.saturating_add(ABORT_DELAY)
}

/// Runs until the operator stops and all runners have ended. Dropping it aborts all daemons and
/// timers.
pub(crate) fn run(
    daemons: Arc<Daemons>,
    pause: Pause,
    assignments: Assignments,
    halt: CancellationToken,
) -> impl Future<Output = ()> + Send + 'static {
    let guard = AbortGuard(daemons);
    async move {
        let daemons = &guard.0;
        let mut stopping = JoinSet::new();
        let mut suspended = JoinSet::new();
        let mut assignment = assignments.current();
        loop {
            tokio::select! {
                biased;
                () = halt.cancelled() => break,
                Some(_) = stopping.join_next() => {}
                Some(_) = suspended.join_next() => {}
                () = assignments.changed_since(&assignment) => {
                    assignment = assignments.current();
                    for runner in daemons.to_suspend() {
                        suspended.spawn(suspend(runner, pause.clone()));
                    }
                }
                released = daemons.released() => {
                    for (runner, reason) in released {
                        stopping.spawn(stop(runner, reason));
                    }
                }
                () = pause.paused() => {
                    for runner in daemons.all() {
                        if !runner.stopped.reason().contains(StopReason::OPERATOR_PAUSING) {
                            stopping.spawn(stop(runner, StopReason::OPERATOR_PAUSING));
                        }
                    }
                    tokio::select! {
                        () = halt.cancelled() => break,
                        () = pause.resumed() => {}
                        () = sleep(PAUSE_INTERVAL) => {}
                    }
                }
            }
        }
        drop(suspended);
        daemons.close();
        for runner in daemons.all() {
            stopping.spawn(stop(runner, StopReason::OPERATOR_EXITING));
        }
        while stopping.join_next().await.is_some() {}
        if timeout(ABORT_DELAY, daemons.tasks.wait()).await.is_err() {
            let left = daemons.all().len();
            warn!("Aborting daemons and timers that did not end: {left}.");
        }
    }
}

/// Aborts all daemons and timers when it is dropped.
struct AbortGuard(Arc<Daemons>);

impl Drop for AbortGuard {
    fn drop(&mut self) {
        let daemons = &self.0;
        daemons.close();
        for runner in daemons.all() {
            runner.stopped.set(StopReason::OPERATOR_EXITING);
            if let Some(task) = runner.task.get() {
                task.abort();
            }
        }
    }
}
