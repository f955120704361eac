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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures::FutureExt as _;

    use super::*;

    fn queue() -> Arc<Queue> {
        Arc::new(Queue::new().unwrap())
    }

    /// Polls the tasks that wait. Returns their number.
    fn poll_all(queue: &Queue) -> usize {
        let mut count = 0;
        while let Some(entry) = queue.pop() {
            if let Entry::Poll(task) = entry {
                count += 1;
                task.poll();
            }
        }
        count
    }

    #[test]
    fn a_task_is_polled_once_for_each_wake_up() {
        let (queue, polls) = (queue(), Arc::new(AtomicUsize::new(0)));
        let (sender, receiver) = oneshot::channel::<()>();
        let counted = Arc::clone(&polls);
        let mut receiver = receiver.fuse();
        let future = std::future::poll_fn(move |context| {
            counted.fetch_add(1, Ordering::SeqCst);
            receiver.poll_unpin(context).map(drop)
        });
        assert!(Task::spawn(&queue, future.boxed()));
        assert_eq!((poll_all(&queue), poll_all(&queue)), (1, 0));
        sender.send(()).unwrap();
        assert_eq!((poll_all(&queue), poll_all(&queue)), (1, 0));
        assert_eq!(polls.load(Ordering::SeqCst), 2);
    }

    #[test]
    fn several_wake_ups_before_a_poll_are_one() {
        let queue = queue();
        let (sender, receiver) = std::sync::mpsc::channel();
        let future = std::future::poll_fn(move |context| {
            let _ = sender.send(context.waker().clone());
            Poll::<()>::Pending
        });
        Task::spawn(&queue, future.boxed());
        poll_all(&queue);
        let waker = receiver.try_recv().unwrap();
        waker.wake_by_ref();
        waker.wake_by_ref();
        assert_eq!(poll_all(&queue), 1);
    }

    #[test]
    fn a_finished_task_drops_its_future_and_is_not_polled_again() {
        let queue = queue();
        let (held, weak) = {
            let held = Arc::new(());
            let weak = Arc::downgrade(&held);
            (held, weak)
        };
        let (sender, receiver) = std::sync::mpsc::channel();
        let future = std::future::poll_fn(move |context| {
            let _ = (sender.send(context.waker().clone()), &held);
            Poll::Ready(())
        });
        Task::spawn(&queue, future.boxed());
        poll_all(&queue);
        assert!(weak.upgrade().is_none());
        receiver.try_recv().unwrap().wake();
        poll_all(&queue);
        assert!(receiver.try_recv().is_err());
    }

    #[test]
    fn tasks_are_dropped_with_their_loop() {
        let queue = queue();
        let (sender, mut receiver) = oneshot::channel::<()>();
        let future = async move {
            let _sender = sender;
            std::future::pending::<()>().await;
        };
        Task::spawn(&queue, future.boxed());
        queue.close();
        assert!(receiver.try_recv().is_err());
        assert!(!Task::spawn(&queue, async {}.boxed()));
    }

    #[test]
    fn the_heart_beats_when_the_loop_takes_its_entry() {
        let queue = queue();
        let host = LoopHost {
            queue: Arc::clone(&queue),
            takes_all: AtomicBool::new(false),
        };
        let mut beat = host.beat();
        assert!((&mut beat).now_or_never().is_none());
        if let Some(Entry::Heartbeat(sender)) = queue.pop() {
            sender.send(()).unwrap();
        }
        assert!(beat.now_or_never().is_some());
        let mut missed = host.beat();
        queue.close();
        assert!(
            (&mut missed).now_or_never().is_none(),
            "an ended loop has no heartbeat"
        );
    }
}
