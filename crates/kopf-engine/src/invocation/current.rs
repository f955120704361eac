//! The running call, for functions deep inside of a handler that do not receive its arguments.

use std::future::Future;

use super::Call;

tokio::task_local! {
    static CURRENT: Call;
}

/// Returns the call of the handler that this code runs in; `None` outside of handlers.
///
/// Tasks and threads that a handler starts are outside.
pub fn current() -> Option<Call> {
    CURRENT.try_with(Clone::clone).ok()
}

/// Runs a future as a part of this call.
pub(crate) async fn within<T>(call: Call, future: impl Future<Output = T>) -> T {
    CURRENT.scope(call, future).await
}

/// Runs a function as a part of this call.
pub(crate) fn within_blocking<T>(call: Call, function: impl FnOnce() -> T) -> T {
    CURRENT.sync_scope(call, function)
}
