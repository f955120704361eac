//! One call of one function: until it returns, panics, or runs out of time.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use futures::FutureExt as _;
use kopf_core::outcome::HandlerError;
use kopf_core::panicking;
use tokio::time::timeout;

use super::Subs;
use super::pool::{BlockingPool, Seat};
use crate::invocation::{Call, Function, HandlerResult, Stopped, Work, within, within_blocking};

/// Calls the function, then its sub-handlers if it did not do so itself.
///
/// A function that blocks cannot be interrupted, so `time_left` is for the others.
pub(crate) async fn call(
    function: &Function,
    call: Call,
    subs: Option<Subs>,
    pool: &BlockingPool,
    time_left: Option<Duration>,
) -> HandlerResult {
    let stopped = call.stopped.clone();
    let prepared = catch_unwind(AssertUnwindSafe(|| function.invoke(call.clone())));
    let (interruptible, running) = match prepared {
        Err(panic) => return Err(panicked(&*panic)),
        Ok(Work::Async(future)) => {
            let future = AssertUnwindSafe(within(call, future)).catch_unwind();
            (true, future.boxed())
        }
        Ok(Work::Blocking(function)) => {
            let (pool, seat) = (pool.clone(), Seat::default());
            if let Some(subs) = &subs {
                subs.seat(seat.clone());
            }
            let stopped = stopped.clone();
            let thread = async move {
                tokio::select! {
                    biased;
                    () = pool.enter(&seat) => {}
                    // What has not begun is not to begin any more.
                    () = told_to_end(stopped) => return Ok(Err(HandlerError::Cancelled)),
                }
                pool.run(seat, move || within_blocking(call, function))
                    .await
            };
            (false, thread.boxed())
        }
    };
    let whole = async {
        let value = running
            .await
            .unwrap_or_else(|panic| Err(panicked(&*panic)))?;
        if let Some(subs) = subs {
            subs.finish().await?;
        }
        Ok(value)
    };
    let limited = async {
        match time_left.filter(|_| interruptible) {
            None => whole.await,
            Some(time_left) => match timeout(time_left, whole).await {
                Ok(result) => result,
                Err(_) => Err(HandlerError::TimedOut),
            },
        }
    };
    match stopped.filter(|_| interruptible) {
        None => limited.await,
        Some(stopped) => tokio::select! {
            biased;
            result = limited => result,
            () = stopped.cancelled() => Err(HandlerError::Cancelled),
        },
    }
}

/// Waits until it is to end, if it can be told to.
async fn told_to_end(stopped: Option<Stopped>) {
    match stopped {
        Some(stopped) => drop(stopped.wait(None).await),
        None => std::future::pending().await,
    }
}

fn panicked(panic: &(dyn Any + Send)) -> HandlerError {
    HandlerError::Arbitrary {
        message: format!("the handler has panicked: {}", panicking::describe(panic)),
        details: None,
    }
}
