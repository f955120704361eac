//! Hosts: threads of the frontend that poll tasks with callbacks of users.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::OperatorContext;

/// Polls tasks of the engine in a thread of the frontend.
///
/// Filters, lifecycles, initial delays and storages are called synchronously inside the tasks of
/// workers, daemons and reviews. A frontend whose functions can run in only one thread polls these
/// tasks there. The engine still owns them: it awaits their results and cancels them.
///
/// ```
/// use std::sync::Mutex;
///
/// use kopf_engine::invocation::{Host, Hosted};
///
/// /// A queue; a thread of the frontend takes the tasks and polls them.
/// struct Queue(Mutex<Vec<Hosted>>);
///
/// impl Host for Queue {
///     fn spawn(&self, task: Hosted) {
///         self.0.lock().unwrap().push(task);
///     }
/// }
/// ```
pub trait Host: Send + Sync {
    /// Polls the task until it is ready. Must return immediately. Dropping the task fails it.
    fn spawn(&self, task: Hosted);

    /// Returns `true` if the host polls all tasks. By default, it polls only those of resources
    /// whose handlers have callbacks: see
    /// [`Handler::has_callbacks`](kopf_core::handler::Handler::has_callbacks). A frontend with
    /// lifecycles or storages of its users must poll all of them.
    fn takes_all(&self) -> bool {
        false
    }
}

impl fmt::Debug for dyn Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Host")
    }
}

/// A task of the engine that a [`Host`] polls in any thread. It enters the context of the engine's
/// runtime itself.
#[must_use = "a task does nothing unless it is polled"]
pub struct Hosted {
    future: BoxFuture<'static, ()>,
    runtime: Handle,
}

impl Future for Hosted {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        let _entered = this.runtime.enter();
        this.future.as_mut().poll(context)
    }
}

impl fmt::Debug for Hosted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hosted")
    }
}

/// The host of a task, if any.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hosting(Option<Arc<dyn Host>>);

const LOST: &str = "the host of the frontend has dropped a task of the engine";

impl Hosting {
    /// Returns the host of tasks that call callbacks of handlers or other code of users.
    pub(crate) fn of(context: &OperatorContext, has_callbacks: bool) -> Self {
        let host = context.host.as_ref();
        Self(
            host.filter(|host| has_callbacks || host.takes_all())
                .cloned(),
        )
    }

    /// Returns `true` if the runtime polls the task itself.
    pub(crate) fn is_native(&self) -> bool {
        self.0.is_none()
    }

    /// Runs a future in the host's thread. Without a host, returns it unchanged.
    ///
    /// # Cancellation
    /// When the returned future is dropped, the host drops the other one as soon as possible. The
    /// operator waits for that before it ends.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        context: &OperatorContext,
        future: impl Future<Output = T> + Send + 'static,
    ) -> BoxFuture<'static, T> {
        let Some(host) = self.0.clone() else {
            return future.boxed();
        };
        let token = context.leftovers.token();
        let cancelled = CancellationToken::new();
        let dropped = cancelled.clone().drop_guard();
        let (sender, receiver) = oneshot::channel();
        let work = async move {
            let _token = token;
            let work = AssertUnwindSafe(future).catch_unwind();
            if let Some(result) = cancelled.run_until_cancelled_owned(work).await {
                let _ = sender.send(result);
            }
        };
        let proxy = async move {
            let _dropped = dropped;
            host.spawn(Hosted {
                future: work.boxed(),
                runtime: Handle::current(),
            });
            let lost = |_| Err(Box::new(LOST) as Box<dyn Any + Send>);
            match receiver.await.unwrap_or_else(lost) {
                Ok(value) => value,
                Err(panic) => resume_unwind(panic),
            }
        };
        proxy.boxed()
    }
}
