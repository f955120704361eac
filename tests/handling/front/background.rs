//! Options of daemons and timers.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use kopf_core::cause::Cause;
use kopf_core::handler::{Cancellation, DelayFunction, HandlerKind, InitialDelay, Timing};
use kopf_core::patch::BoxError;

use super::Declaration;

fn secs(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

/// Options of daemons.
impl Declaration {
    fn cancellation(mut self, change: impl FnOnce(&mut Cancellation)) -> Self {
        if let HandlerKind::Daemon(cancellation) = &mut self.kind {
            change(cancellation);
        }
        self
    }

    pub(crate) fn cancellation_backoff(self, seconds: f64) -> Self {
        self.cancellation(|cancellation| cancellation.backoff = Some(secs(seconds)))
    }

    pub(crate) fn cancellation_timeout(self, seconds: f64) -> Self {
        self.cancellation(|cancellation| cancellation.timeout = Some(secs(seconds)))
    }

    pub(crate) fn cancellation_polling(self, seconds: f64) -> Self {
        self.cancellation(|cancellation| cancellation.polling = Some(secs(seconds)))
    }

    /// Waits until the daemon is stopped, and exits.
    pub(crate) fn waits(self) -> Self {
        self.does(|call| async move {
            call.stopped
                .expect("the handler is a daemon")
                .wait(None)
                .await;
            super::done()
        })
    }

    /// Never exits, even if it is stopped.
    pub(crate) fn ignores_all(self) -> Self {
        self.does(|_| std::future::pending())
    }
}

/// Options of timers.
impl Declaration {
    fn timing(mut self, change: impl FnOnce(&mut Timing)) -> Self {
        if let HandlerKind::Timer(timing) = &mut self.kind {
            change(timing);
        }
        self
    }

    pub(crate) fn interval(self, seconds: f64) -> Self {
        self.timing(|timing| timing.interval = Some(secs(seconds)))
    }

    pub(crate) fn sharp(self) -> Self {
        self.timing(|timing| timing.sharp = true)
    }

    pub(crate) fn idle(self, seconds: f64) -> Self {
        self.timing(|timing| timing.idle = Some(secs(seconds)))
    }
}

/// Options of both.
impl Declaration {
    pub(crate) fn initial_delay(mut self, seconds: f64) -> Self {
        self.initial_delay = Some(InitialDelay::Fixed(secs(seconds)));
        self
    }

    pub(crate) fn initial_delay_by<F>(mut self, function: F) -> Self
    where
        F: Fn(&Cause) -> Result<f64, &'static str> + Send + Sync + 'static,
    {
        self.initial_delay = Some(InitialDelay::Function(Arc::new(Delay(function))));
        self
    }
}

struct Delay<F>(F);

impl<F> DelayFunction for Delay<F>
where
    F: Fn(&Cause) -> Result<f64, &'static str> + Send + Sync,
{
    fn delay(&self, cause: &Cause, _: &dyn Any) -> Result<Duration, BoxError> {
        super::event_loop::check_thread();
        Ok(secs((self.0)(cause)?))
    }
}
