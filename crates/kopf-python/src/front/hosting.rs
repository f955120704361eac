//! Tasks of the engine that call functions of users and are polled in the thread of the event loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures::future::BoxFuture;
use kopf_core::sync::Mutex;
use kopf_engine::invocation::{Heartbeat, Host, Hosted};
use tokio::sync::oneshot;

use crate::front::queue::{Entry, Queue};

/// A task that is polled whenever it is woken.
pub(crate) struct Task {
    future: Mutex<Option<BoxFuture<'static, ()>>>,
    is_queued: AtomicBool,
    queue: Arc<Queue>,
}

impl Task {
    /// Polls a future in the thread of the event loop until it is ready. Returns `false` if the
    /// loop has ended.
    pub(crate) fn spawn(queue: &Arc<Queue>, future: BoxFuture<'static, ()>) -> bool {
        let task = Arc::new(Self {
            future: Mutex::new(Some(future)),
            is_queued: AtomicBool::new(true),
            queue: Arc::clone(queue),
        });
        queue.push(Entry::Poll(task))
    }

    /// Polls the task once. Called only by the drain.
    pub(crate) fn poll(self: Arc<Self>) {
        self.is_queued.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(&self));
        let mut future = self.future.lock();
        let Some(running) = future.as_mut() else {
            return;
        };
        if let Poll::Ready(()) = running.as_mut().poll(&mut Context::from_waker(&waker)) {
            *future = None;
        }
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::SeqCst) {
            let queue = Arc::clone(&self.queue);
            queue.push(Entry::Poll(self));
        }
    }
}

/// The event loop as a host of tasks, with its heartbeat.
pub(crate) struct LoopHost {
    pub(crate) queue: Arc<Queue>,
    /// `true` if lifecycles or storages are written in Python, because all tasks call them.
    pub(crate) takes_all: AtomicBool,
}

impl Host for LoopHost {
    fn spawn(&self, task: Hosted) {
        // Without a loop, the task is dropped, which fails it.
        Task::spawn(&self.queue, Box::pin(task));
    }

    fn takes_all(&self) -> bool {
        self.takes_all.load(Ordering::Relaxed)
    }
}

impl Heartbeat for LoopHost {
    fn beat(&self) -> BoxFuture<'static, ()> {
        let (sender, receiver) = oneshot::channel();
        self.queue.push(Entry::Heartbeat(sender));
        Box::pin(async move {
            if receiver.await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}
