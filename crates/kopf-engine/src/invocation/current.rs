//! The call of the running handler.
//!
//! [`current`] returns the call to functions deep inside of a handler. [`polled`] returns the
//! handlers that block a thread of the runtime to the signal thread.

use std::future::{Future, poll_fn};
use std::pin::Pin;

use kopf_core::handler::HandlerId;
use kopf_core::sync::Mutex;

use super::Call;
use super::logger::ObjectLogger;

tokio::task_local! {
    static CURRENT: Call;
}

/// Async handlers that are being polled, in all threads of the process. At most one entry per
/// thread of a runtime, except for nested handlers.
static POLLED: Mutex<Vec<Polled>> = Mutex::new(Vec::new());

struct Polled {
    number: u64,
    handler: HandlerId,
    logger: ObjectLogger,
}

/// Returns the call of the handler that runs this code; `None` outside of handlers.
///
/// Tasks and threads that a handler spawns itself are outside.
pub fn current() -> Option<Call> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Returns the async handlers that are being polled, as `'id' of <object>`.
///
/// A poll takes microseconds unless the function blocks, so these are the handlers that block an
/// unresponsive runtime.
pub(crate) fn polled() -> Vec<String> {
    let describe = |polled: &Polled| match polled.logger.activity() {
        Some(activity) => format!("'{}' of the {}", polled.handler, activity.as_str()),
        None => format!("'{}' of {}", polled.handler, polled.logger.reference()),
    };
    POLLED.lock().iter().map(describe).collect()
}

/// Runs a future as a part of this call.
pub(crate) async fn within<T>(call: Call, mut future: impl Future<Output = T> + Unpin) -> T {
    let watched = poll_fn(move |context| {
        let _polling = CURRENT.try_with(Polling::enter);
        Pin::new(&mut future).poll(context)
    });
    CURRENT.scope(call, watched).await
}

/// Runs a function as a part of this call.
pub(crate) fn within_blocking<T>(call: Call, function: impl FnOnce() -> T) -> T {
    CURRENT.sync_scope(call, function)
}

/// An entry of [`POLLED`] for the duration of one poll.
struct Polling(u64);

impl Polling {
    fn enter(call: &Call) -> Self {
        let mut entries = POLLED.lock();
        let number = entries.last().map_or(0, |last| last.number.wrapping_add(1));
        entries.push(Polled {
            number,
            handler: HandlerId::clone(&call.id),
            logger: call.logger.clone(),
        });
        Self(number)
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        POLLED.lock().retain(|polled| polled.number != self.0);
    }
}
