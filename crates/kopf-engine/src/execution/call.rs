//! One call of one function, until it returns, panics or is cancelled.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kopf_core::outcome::HandlerError;
use kopf_core::panicking;
use tokio::time::{Instant, timeout};

use super::Subs;
use super::foreign::{ForeignWork, Limits};
use super::pool::{BlockingPool, ThreadPermit};
use crate::invocation::{
    Call, Cancel, Function, HandlerResult, Stopped, Work, within, within_blocking,
};

/// The environment of a call.
pub(super) struct Calling<'a> {
    pub(super) subs: Option<Subs>,
    pub(super) pool: &'a BlockingPool,
    /// The time until the handler's timeout, which does not interrupt blocking functions.
    pub(super) time_left: Option<Duration>,
}

impl Calling<'_> {
    /// Calls the function, then its sub-handlers that it has not executed itself.
    pub(super) async fn call(self, function: &Function, call: Call) -> HandlerResult {
        let prepared = catch_unwind(AssertUnwindSafe(|| function.invoke(call.clone())));
        match prepared {
            Err(panic) => Err(panicked(&*panic)),
            Ok(Work::Async(future)) => self.run_async(call, future).await,
            Ok(Work::Blocking(function)) => self.run_blocking(call, function).await,
            Ok(Work::Foreign { done, cancel }) => self.run_foreign(call, done, cancel).await,
        }
    }

    async fn run_async(
        self,
        call: Call,
        future: BoxFuture<'static, HandlerResult>,
    ) -> HandlerResult {
        let stopped = call.stopped.clone();
        let future = AssertUnwindSafe(within(call, future)).catch_unwind();
        let whole = async {
            let value = future
                .await
                .unwrap_or_else(|panic| Err(panicked(&*panic)))?;
            finish(self.subs).await?;
            Ok(value)
        };
        let limited = limited(self.time_left, whole);
        match stopped {
            None => limited.await,
            Some(stopped) => tokio::select! {
                biased;
                result = limited => result,
                () = stopped.cancelled() => Err(HandlerError::Cancelled),
            },
        }
    }

    async fn run_blocking(
        self,
        call: Call,
        function: Box<dyn FnOnce() -> HandlerResult + Send>,
    ) -> HandlerResult {
        let permit = ThreadPermit::default();
        if let Some(subs) = &self.subs {
            subs.set_permit(permit.clone());
        }
        tokio::select! {
            biased;
            () = self.pool.enter(&permit) => {}
            // A function that has not started must not start any more.
            () = stop_requested(call.stopped.clone()) => return Err(HandlerError::Cancelled),
        }
        let running = self
            .pool
            .run(permit, move || within_blocking(call, function));
        let value = running
            .await
            .unwrap_or_else(|panic| Err(panicked(&*panic)))?;
        finish(self.subs).await?;
        Ok(value)
    }

    async fn run_foreign(
        self,
        call: Call,
        done: BoxFuture<'static, HandlerResult>,
        cancel: Option<Cancel>,
    ) -> HandlerResult {
        let begun = Instant::now();
        if let Some(stopped) = &call.stopped {
            stopped.set_foreign();
        }
        let work = ForeignWork::new(done, cancel, &call.operator.leftovers);
        let limits = Limits {
            time_left: self.time_left,
            stopped: call.stopped.as_ref(),
            logger: &call.logger,
        };
        let value = work.run(limits).await?;
        let time_left = self
            .time_left
            .map(|left| left.saturating_sub(begun.elapsed()));
        limited(time_left, finish(self.subs)).await?;
        Ok(value)
    }
}

async fn finish(subs: Option<Subs>) -> Result<(), HandlerError> {
    match subs {
        Some(subs) => subs.finish().await,
        None => Ok(()),
    }
}

/// Drops the work at the timeout.
async fn limited<T>(
    time_left: Option<Duration>,
    work: impl Future<Output = Result<T, HandlerError>>,
) -> Result<T, HandlerError> {
    match time_left {
        None => work.await,
        Some(time_left) => match timeout(time_left, work).await {
            Ok(result) => result,
            Err(_) => Err(HandlerError::TimedOut),
        },
    }
}

/// Waits until a daemon or timer is stopped; forever for other handlers.
async fn stop_requested(stopped: Option<Stopped>) {
    match stopped {
        Some(stopped) => drop(stopped.wait(None).await),
        None => std::future::pending().await,
    }
}

pub(super) fn panicked(panic: &(dyn Any + Send)) -> HandlerError {
    let panic = panicking::describe(panic);
    HandlerError::arbitrary(format!("the handler has panicked: {panic}"))
}
