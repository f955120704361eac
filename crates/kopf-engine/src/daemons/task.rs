//! The task of one daemon or timer: delays, attempts, retries.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kopf_core::background::{Next, after_round, idle_left};
use kopf_core::cause::Cause;
use kopf_core::handler::{HandlerKind, InitialDelay, Timing};
use kopf_core::outcome::{Outcome, Verdict};
use kopf_core::patch::{Patch, PatchFn};
use kopf_core::wording;
use tokio::time::Instant;

use super::runner::Runner;
use crate::execution::{Execution, PriorAttempts, RunnerHandles, describe_panic};
use crate::inspect::{Counted, Guard};
use crate::invocation::FilterContext;
use crate::leading::Pass;
use crate::metrics::ErrorMark;

/// Minimum interval: a timer without an interval would starve other tasks.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// The state of one daemon or timer.
#[derive(Debug)]
pub(super) struct RunnerTask {
    pub(super) runner: Arc<Runner>,
    retries: u32,
    started: Timestamp,
    /// Transformations that conflicted with a newer version of the object, for the next attempt.
    pub(super) carried: Vec<PatchFn>,
    /// Counts the task as working; `None` while it sleeps.
    pub(super) busy: Option<Guard>,
    /// Set if the last attempt has failed.
    error: Option<ErrorMark>,
    /// Held until the task ends: the Lease of the object is not released before.
    pub(super) pass: Pass,
}

/// The result of an attempt.
enum Attempted {
    Succeeded,
    /// The attempt will be retried.
    Unfinished(Option<Duration>),
    /// Failed permanently, or cancelled.
    Ended,
}

impl RunnerTask {
    pub(super) fn new(runner: Arc<Runner>, pass: Pass) -> Self {
        let daemons = &runner.object.daemons;
        Self {
            retries: 0,
            started: daemons.context().clock.now(),
            carried: Vec::new(),
            busy: Some(daemons.inspect.count(Counted::Working)),
            error: None,
            runner,
            pass,
        }
    }

    pub(super) async fn run(mut self) {
        self.initial_delay().await;
        match self.runner.handler.kind {
            HandlerKind::Timer(timing) => self.timer(&timing).await,
            _ => self.daemon().await,
        }
        if !self.carried.is_empty() {
            Box::pin(self.flush()).await;
        }
    }

    async fn daemon(&mut self) {
        self.renew();
        while !self.runner.stopped.is_set() {
            // Boxed to keep the futures of sleeping tasks small.
            match Box::pin(self.attempt()).await {
                Attempted::Unfinished(delay) => self.sleep(delay.unwrap_or_default()).await,
                Attempted::Succeeded | Attempted::Ended => return,
            }
        }
    }

    async fn timer(&mut self, timing: &Timing) {
        let mut is_over = true;
        loop {
            self.idle(timing).await;
            if self.runner.stopped.is_set() {
                return;
            }
            if is_over {
                self.renew();
            }
            let (begun, changes) = (Instant::now(), self.runner.object.changes());
            match Box::pin(self.attempt()).await {
                Attempted::Ended => return,
                Attempted::Unfinished(delay) => {
                    is_over = false;
                    self.sleep(delay.unwrap_or_default()).await;
                }
                Attempted::Succeeded => {
                    is_over = true;
                    match after_round(timing, begun.elapsed()) {
                        Next::After(delay) => self.sleep(delay.max(MIN_INTERVAL)).await,
                        Next::Change => self.change(changes).await,
                        Next::Never => return,
                    }
                }
            }
        }
    }

    /// Waits before the first call.
    async fn initial_delay(&mut self) {
        let handler = Arc::clone(&self.runner.handler);
        match &handler.initial_delay {
            None => {}
            Some(InitialDelay::Fixed(delay)) => self.sleep(*delay).await,
            Some(InitialDelay::Function(function)) => {
                let object = Arc::clone(&self.runner.object);
                let context = &object.daemons.context();
                let filtering =
                    FilterContext::new(Arc::clone(context), object.memo.clone(), &object.logger);
                while !self.runner.stopped.is_set() {
                    let cause = self.cause();
                    let asked = catch_unwind(AssertUnwindSafe(|| {
                        function.delay_for(&cause, &filtering, handler.param.as_ref())
                    }));
                    let problem = match asked {
                        Ok(Ok(delay)) => return self.sleep(delay).await,
                        Ok(Err(error)) => error.to_string(),
                        Err(panic) => format!("the function panicked: {}", describe_panic(&*panic)),
                    };
                    let default = context.settings.execution.default_backoff;
                    let backoff = handler.retrying.backoff.unwrap_or(default);
                    object.logger.error(format_args!(
                        "{} cannot start because the function of its initial delay failed, \
                         and will try again in {} seconds: {problem}",
                        self.runner.label(),
                        wording::seconds(backoff),
                    ));
                    self.sleep(backoff).await;
                }
            }
        }
    }

    /// Resets the counters for a new round.
    fn renew(&mut self) {
        self.retries = 0;
        self.started = self.runner.object.daemons.context().clock.now();
    }

    /// Sleeps until the delay has passed or the runner is stopped.
    pub(super) async fn sleep(&mut self, delay: Duration) {
        if delay.is_zero() {
            return tokio::task::yield_now().await;
        }
        self.busy = None;
        self.runner.live.rest(delay);
        self.runner.stopped.wait(Some(delay)).await;
    }

    /// Waits until the object has been unchanged for the `idle` time.
    async fn idle(&mut self, timing: &Timing) {
        while !self.runner.stopped.is_set()
            && let Some(left) = idle_left(timing, self.runner.object.unchanged())
        {
            self.sleep(left).await;
        }
    }

    /// Waits until the number of changes differs from `changes`.
    async fn change(&mut self, changes: u64) {
        self.busy = None;
        self.runner.live.rest(Duration::MAX);
        tokio::select! {
            _ = self.runner.stopped.wait(None) => {}
            () = self.runner.object.changed_since(changes) => {}
        }
    }

    /// Returns `true` if no attempt follows a final one.
    fn is_last(&self, has_failed: bool) -> bool {
        match &self.runner.handler.kind {
            HandlerKind::Timer(timing) => {
                has_failed || after_round(timing, Duration::ZERO) == Next::Never
            }
            _ => true,
        }
    }

    fn cause(&self) -> Cause {
        Cause::new(
            Arc::clone(&self.runner.object.resource),
            self.runner.live.get(),
        )
    }

    async fn attempt(&mut self) -> Attempted {
        let runner = Arc::clone(&self.runner);
        let daemons = &runner.object.daemons;
        // A daemon runs indefinitely, so its attempt does not count as work.
        let is_timer = runner.counted() == Counted::Timer;
        self.busy = is_timer.then(|| daemons.inspect.count(Counted::Working));
        let carried = Patch {
            fns: std::mem::take(&mut self.carried),
            ..Patch::default()
        };
        let (logger, memo) = (runner.object.logger.clone(), runner.object.memo.clone());
        let execution = Execution::new(&daemons.executor, self.cause(), logger, memo)
            .with_patch(carried)
            .with_pass(self.pass.clone());
        let before = PriorAttempts {
            retries: self.retries,
            started: self.started,
        };
        let handles = RunnerHandles {
            stopped: runner.stopped.clone(),
            live: runner.live.clone(),
        };
        let outcome = execution.run_daemon(&runner.handler, before, handles).await;
        if outcome.verdict == Verdict::Cancelled {
            return Attempted::Ended;
        }
        self.note_error(&outcome);
        self.retries = self.retries.saturating_add(1);
        let patch = execution.patch.take();
        drop(execution);
        if outcome.is_final && self.is_last(outcome.error.is_some()) {
            // Before the write: the cycle that it triggers must not depend on this runner.
            runner.retire();
        }
        if let Err(message) = self.write(patch).await {
            return self.fail(&message);
        }
        match (outcome.is_final, outcome.error) {
            (false, _) => Attempted::Unfinished(outcome.delay),
            (true, None) => Attempted::Succeeded,
            (true, Some(_)) => {
                runner.object.state().failures.extend(self.error.take());
                Attempted::Ended
            }
        }
    }

    /// Ends the runner after an attempt whose patch can never be written.
    fn fail(&mut self, message: &str) -> Attempted {
        let runner = Arc::clone(&self.runner);
        let label = runner.label();
        let logger = runner.object.logger.about(runner.handler.kind);
        logger.error(format_args!("{label} failed permanently: {message}"));
        if self.error.is_none() {
            let metrics = &runner.object.daemons.context().metrics;
            self.error = metrics.mark(&runner.handler);
        }
        runner.retire();
        runner.object.state().failures.extend(self.error.take());
        Attempted::Ended
    }

    /// Marks the object as failing while attempts fail.
    fn note_error(&mut self, outcome: &Outcome) {
        if outcome.error.is_none() {
            self.error = None;
        } else if self.error.is_none() {
            let metrics = &self.runner.object.daemons.context().metrics;
            self.error = metrics.mark(&self.runner.handler);
        }
    }
}
