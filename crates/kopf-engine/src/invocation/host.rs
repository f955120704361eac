//! A place of the front where tasks with callbacks of users are polled.

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

/// Polls tasks of the engine in a thread of the front.
///
/// Filters, lifecycles, initial delays and storages are called synchronously inside the tasks of
/// workers, daemons and reviews. A front whose functions can run in one thread only has these
/// tasks polled there. The engine still owns them: it awaits their results and cancels them.
///
/// ```
/// use std::sync::Mutex;
///
/// use kopf_engine::invocation::{Host, Hosted};
///
/// /// A queue; a thread of the front takes the tasks out and polls them.
/// struct Queue(Mutex<Vec<Hosted>>);
///
/// impl Host for Queue {
///     fn spawn(&self, task: Hosted) {
///         self.0.lock().unwrap().push(task);
///     }
/// }
/// ```
pub trait Host: Send + Sync {
    /// Polls the task until it is ready. Must return at once. Dropping the task instead fails it.
    fn spawn(&self, task: Hosted);

    /// Returns `true` if all tasks are polled here. By default, only those of resources whose
    /// handlers have callbacks are: see
    /// [`Handler::has_callbacks`](kopf_core::handler::Handler::has_callbacks). A front with
    /// lifecycles or storages of its users needs all of them.
    fn takes_all(&self) -> bool {
        false
    }
}

impl fmt::Debug for dyn Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Host")
    }
}

/// A task of the engine to be polled by a [`Host`], in any thread. It brings the context of the
/// engine's runtime with it.
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

/// The host for a task, if it has any.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hosting(Option<Arc<dyn Host>>);

/// The task was dropped by its host.
const LOST: &str = "the host of the front has dropped a task of the engine";

impl Hosting {
    /// The host of tasks that call handlers' callbacks, or other code of users.
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

    /// Runs a future in the host's thread. Without a host, returns it as it is.
    ///
    /// # Cancellation
    /// When the returned future is dropped, the host drops the other one as soon as it can; the
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
