//! Liveness of a frontend.

use std::fmt;

use futures::future::BoxFuture;

/// Checks that the thread or event loop of a frontend responds. Without this check, an operator
/// whose handlers can never run would look healthy.
///
/// ```
/// use futures::channel::oneshot;
/// use futures::future::BoxFuture;
/// use kopf_engine::invocation::Heartbeat;
///
/// /// A queue of requests that a loop responds to.
/// struct Loop(std::sync::mpsc::Sender<oneshot::Sender<()>>);
///
/// impl Heartbeat for Loop {
///     fn beat(&self) -> BoxFuture<'static, ()> {
///         let (sender, receiver) = oneshot::channel();
///         let _ = self.0.send(sender);
///         Box::pin(async move {
///             if receiver.await.is_err() {
///                 std::future::pending().await
///             }
///         })
///     }
/// }
/// ```
pub trait Heartbeat: Send + Sync {
    /// Resolves when the frontend has responded. The operator is unhealthy if this takes longer
    /// than 10 seconds.
    fn beat(&self) -> BoxFuture<'static, ()>;
}

impl fmt::Debug for dyn Heartbeat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Heartbeat")
    }
}
