//! A third front: an event loop in a thread of its own, as other languages have.
//!
//! Handlers are foreign work. Async ones run in the loop and are cancelled by a request; blocking
//! ones run in threads of the front and cannot be cancelled. Tasks with callbacks are polled in the
//! loop. While the loop or a thread is busy, virtual time stands still: the runtime must not take
//! the waiting for them for idleness.

use std::cell::Cell;
use std::future::Future;
use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard, mpsc};
use std::task::{Context, Poll, Wake, Waker};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use kopf_core::outcome::HandlerError;
use kopf_core::sync::Mutex;
use kopf_engine::invocation::{HandlerResult, Host, Hosted, Work};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tracing::Dispatch;

thread_local! {
    static IN_LOOP: Cell<bool> = const { Cell::new(false) };
}

/// Returns `true` if the environment selects this front.
pub(crate) fn is_foreign() -> bool {
    match std::env::var("KOPF_TEST_FRONT").as_deref() {
        Err(_) | Ok("native") => false,
        Ok("foreign") => true,
        Ok(other) => panic!("KOPF_TEST_FRONT is {other:?}: must be native or foreign"),
    }
}

/// Checks that a callback is called in the loop, if there is one.
pub(super) fn check_thread() {
    if is_foreign() {
        assert!(IN_LOOP.get(), "a callback is called outside of its loop");
    }
}

/// The loop. Clones are the same loop; its thread ends with the last of them.
#[derive(Clone)]
pub(crate) struct EventLoop(Arc<Inner>);

struct Inner {
    queue: mpsc::Sender<Arc<Task>>,
    busy: Arc<Busy>,
    dispatch: Dispatch,
}

impl EventLoop {
    /// Starts the thread, if the environment selects this front.
    pub(crate) fn start() -> Option<Self> {
        is_foreign().then(|| {
            let (queue, tasks) = mpsc::channel::<Arc<Task>>();
            let dispatch = tracing::dispatcher::get_default(Clone::clone);
            let busy = Arc::new(Busy::new(Handle::current()));
            let (logging, working) = (dispatch.clone(), Arc::clone(&busy));
            std::thread::spawn(move || {
                IN_LOOP.set(true);
                let _guard = tracing::dispatcher::set_default(&logging);
                for task in tasks {
                    task.poll();
                    working.leave();
                }
            });
            Self(Arc::new(Inner {
                queue,
                busy,
                dispatch,
            }))
        })
    }

    /// Turns the work of the native front into foreign work.
    pub(super) fn submit(&self, work: Work) -> Work {
        match work {
            Work::Async(future) => self.submit_async(future),
            Work::Blocking(function) => self.submit_blocking(function),
            work => work,
        }
    }

    fn submit_async(&self, future: BoxFuture<'static, HandlerResult>) -> Work {
        let (sender, receiver) = oneshot::channel();
        let cancelled = CancellationToken::new();
        let cancel = cancelled.clone();
        self.spawn(async move {
            let running = AssertUnwindSafe(future).catch_unwind();
            let result = cancelled.run_until_cancelled_owned(running).await;
            let _ = sender.send(result.unwrap_or(Ok(Err(HandlerError::Cancelled))));
        });
        Work::Foreign {
            done: outcome(receiver),
            cancel: Some(Box::new(move || cancel.cancel())),
        }
    }

    fn submit_blocking(&self, function: Box<dyn FnOnce() -> HandlerResult + Send>) -> Work {
        let (sender, receiver) = oneshot::channel();
        let inner = Arc::clone(&self.0);
        inner.busy.enter();
        std::thread::spawn(move || {
            let _guard = tracing::dispatcher::set_default(&inner.dispatch);
            let _entered = inner.busy.runtime.enter();
            let result = std::panic::catch_unwind(AssertUnwindSafe(function));
            let _ = sender.send(result);
            inner.busy.leave();
        });
        Work::Foreign {
            done: outcome(receiver),
            cancel: None,
        }
    }

    fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        let task = Arc::new(Task {
            future: Mutex::new(Some(future.boxed())),
            is_queued: AtomicBool::new(false),
            queue: self.0.queue.clone(),
            busy: Arc::clone(&self.0.busy),
        });
        task.wake();
    }
}

impl Host for EventLoop {
    fn spawn(&self, task: Hosted) {
        Self::spawn(self, task);
    }
}

/// The engine describes panics; those of the loop are handed over to it.
fn outcome(
    receiver: oneshot::Receiver<std::thread::Result<HandlerResult>>,
) -> BoxFuture<'static, HandlerResult> {
    let outcome = async move {
        match receiver.await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => resume_unwind(panic),
            Err(_) => Err(HandlerError::arbitrary("the event loop has ended")),
        }
    };
    outcome.boxed()
}

/// A task of the loop.
struct Task {
    future: Mutex<Option<BoxFuture<'static, ()>>>,
    is_queued: AtomicBool,
    queue: mpsc::Sender<Arc<Self>>,
    busy: Arc<Busy>,
}

impl Task {
    fn poll(self: Arc<Self>) {
        self.is_queued.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self));
        let _entered = self.busy.runtime.enter();
        let mut future = lock(&self.future);
        if let Some(running) = future.as_mut()
            && let Poll::Ready(()) = running.as_mut().poll(&mut Context::from_waker(&waker))
        {
            *future = None;
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::SeqCst) {
            self.busy.enter();
            let busy = Arc::clone(&self.busy);
            if self.queue.clone().send(self).is_err() {
                busy.leave();
            }
        }
    }
}

/// Counts the entries that are not processed. While there are any, a blocking task of the runtime
/// keeps its virtual time from advancing.
struct Busy {
    runtime: Handle,
    entries: Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    count: usize,
    holding: Option<mpsc::Sender<()>>,
}

impl Busy {
    fn new(runtime: Handle) -> Self {
        Self {
            runtime,
            entries: Mutex::default(),
        }
    }

    fn enter(&self) {
        let mut entries = lock(&self.entries);
        entries.count += 1;
        if entries.holding.is_none() {
            let (holding, held) = mpsc::channel::<()>();
            entries.holding = Some(holding);
            drop(self.runtime.spawn_blocking(move || held.recv()));
        }
    }

    fn leave(&self) {
        let mut entries = lock(&self.entries);
        entries.count -= 1;
        if entries.count == 0 {
            entries.holding = None;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}
