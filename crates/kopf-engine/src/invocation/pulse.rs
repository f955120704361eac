//! Signs of life of a front.

use std::fmt;

use futures::future::BoxFuture;

/// Tells whether the thread or the loop of a front still works. Without it, an operator whose
/// handlers can never run would look healthy.
///
/// ```
/// use futures::channel::oneshot;
/// use futures::future::BoxFuture;
/// use kopf_engine::invocation::Pulse;
///
/// /// A queue of requests that a loop answers.
/// struct Loop(std::sync::mpsc::Sender<oneshot::Sender<()>>);
///
/// impl Pulse for Loop {
///     fn beat(&self) -> BoxFuture<'static, ()> {
///         let (answer, answered) = oneshot::channel();
///         let _ = self.0.send(answer);
///         Box::pin(async move {
///             if answered.await.is_err() {
///                 std::future::pending().await
///             }
///         })
///     }
/// }
/// ```
pub trait Pulse: Send + Sync {
    /// Resolves when the front has reacted. The operator is unhealthy if this takes longer than
    /// 10 seconds.
    fn beat(&self) -> BoxFuture<'static, ()>;
}

impl fmt::Debug for dyn Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pulse")
    }
}
