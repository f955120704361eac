//! Patches of daemons and timers, sent after each attempt.

use std::sync::Arc;
use std::time::Duration;

use kopf_core::patch::Patch;
use kopf_core::wording;

use super::task::RunnerTask;
use crate::error::Error;
use crate::inspect::Counted;
use crate::patching::{Applied, Pending};

/// Delay before a conflicting patch is sent again after the last attempt.
const CONFLICT_DELAY: Duration = Duration::from_secs(1);

/// Maximum number of such retries.
const MAX_LAST_ATTEMPTS: usize = 10;

/// Retry delay for unsent patches when `error_delays` is empty.
const RESEND_DELAY: Duration = Duration::from_secs(1);

impl RunnerTask {
    /// Sends the patch and retries after temporary errors. Transformations that conflict with a
    /// newer version of the object are carried over to the next attempt.
    ///
    /// Returns an error message if the patch is too large for the server: the handler fails.
    pub(super) async fn write(&mut self, patch: Patch) -> Result<(), String> {
        if patch.is_empty() {
            return Ok(());
        }
        let size = patch.size();
        let runner = Arc::clone(&self.runner);
        let (object, stopped) = (&runner.object, &runner.stopped);
        let context = &object.daemons.context();
        let logger = object.logger.local();
        let delays = &context.settings.queueing.error_delays;
        let mut pending = Pending::new(patch, &object.resource, self.pass.clone());
        let mut failures = 0_usize;
        loop {
            let was_stopped = stopped.is_set();
            self.busy = Some(object.daemons.inspect.count(Counted::Working));
            let body = runner.live.get();
            let applying = pending.apply(context, &object.resource, &body, &object.logger);
            let applied = tokio::select! {
                biased;
                applied = applying => applied,
                () = stopped.cancelled() => return Ok(()),
            };
            object.count_patch(&applied);
            match applied {
                Ok(Applied::Accepted { .. }) => return Ok(()),
                Ok(Applied::NotFound) => {
                    logger.debug(wording::PATCH_SKIPPED);
                    return Ok(());
                }
                Ok(Applied::Conflict { functions, .. }) => {
                    self.carried = functions;
                    return Ok(());
                }
                Err(Error::NotHeld) => {
                    logger.debug(Error::NotHeld);
                    return Ok(());
                }
                Err(error) if error.exceeded_limit().is_some() => {
                    return Err(error.too_large(size));
                }
                Err(error) if error.is_rejection() || (was_stopped && failures > 0) => {
                    let (label, error) = (runner.label(), error.chain());
                    logger.error(format_args!("The patch of {label} is dropped: {error}"));
                    return Ok(());
                }
                Err(error) => {
                    let delay = delays.get(failures).or(delays.last());
                    let delay = delay.copied().unwrap_or(RESEND_DELAY);
                    failures = failures.saturating_add(1);
                    logger.error(wording::throttling(delay, error.chain()));
                    self.sleep(delay).await;
                }
            }
        }
    }

    /// Sends the transformations that conflicted after the last attempt.
    pub(super) async fn flush(&mut self) {
        for _ in 0..MAX_LAST_ATTEMPTS {
            let stopped = self.runner.stopped.clone();
            tokio::select! {
                () = tokio::time::sleep(CONFLICT_DELAY) => {}
                () = stopped.cancelled() => return,
            }
            let patch = Patch {
                fns: std::mem::take(&mut self.carried),
                ..Patch::default()
            };
            let written = self.write(patch).await;
            let logger = self.runner.object.logger.local();
            if let Err(error) = written {
                let label = self.runner.label();
                return logger.error(format_args!("The patch of {label} is dropped: {error}"));
            }
            if self.carried.is_empty() {
                return;
            }
        }
        let label = self.runner.label();
        let logger = self.runner.object.logger.local();
        logger.error(format_args!(
            "The patch of {label} is dropped: the object changes too often."
        ));
    }
}
