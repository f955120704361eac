//! The queue from the engine to the event loop of Python.
//!
//! Any thread pushes entries; only [`drain`](crate::bridge::drain) takes them, in the thread of the event
//! loop. The loop is woken by one byte in a socket that it watches, so that many entries share one
//! wake-up and the engine never waits for the interpreter. Entries of the engine's thread wake the
//! loop when that thread becomes idle, or when [`BATCH`] entries wait. Entries that are pushed
//! during a drain are taken by that drain.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, OnceLock};
use std::thread::ThreadId;

use kopf_core::sync::Mutex;
use pyo3::Python;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::front::hosting::Task;
use crate::front::job::Job;
use crate::front::logging::Record;
use crate::front::traces::Traced;

/// Maximum number of waiting log records and spans. More are dropped, and their number is logged.
const MAX_RECORDS: usize = 10_000;

/// Number of waiting entries at which the engine's thread wakes the loop before becoming idle.
const BATCH: usize = 16;

/// An entry for the thread of the event loop.
pub(crate) enum Entry {
    /// A log record.
    Log(Record),
    /// A function of a user to start.
    Start(Arc<Job>),
    /// A function of a user to cancel.
    Cancel(Arc<Job>),
    /// A task of the engine to poll.
    Poll(Arc<Task>),
    /// Anything else.
    Run(Box<dyn FnOnce(Python<'_>) + Send>),
    /// A span that has ended at this time, in nanoseconds since the epoch.
    Span(Arc<Traced>, u64),
    /// A check of the event loop by the health endpoint.
    Heartbeat(oneshot::Sender<()>),
}

impl Entry {
    /// Returns `true` if the entry can be dropped.
    fn is_record(&self) -> bool {
        matches!(self, Self::Log(_) | Self::Span(..))
    }
}

/// The queue. It is closed at the end of its loop; later entries are dropped.
pub(crate) struct Queue {
    state: Mutex<State>,
    reader: UnixStream,
    writer: UnixStream,
    /// The thread that calls [`flush`](Self::flush) before it waits.
    engine: OnceLock<ThreadId>,
    closed: CancellationToken,
    wakeups: AtomicU64,
    dropped: AtomicU64,
}

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    records: usize,
    phase: Phase,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    /// The next entry wakes the loop.
    #[default]
    Armed,
    /// The engine's thread wakes the loop before it waits.
    Deferred,
    /// The loop will drain the queue.
    Signalled,
    /// The loop is draining the queue and checks for further entries at the end.
    Draining,
    /// The loop has ended.
    Closed,
}

impl Queue {
    pub(crate) fn new() -> std::io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        reader.set_nonblocking(true)?;
        writer.set_nonblocking(true)?;
        Ok(Self {
            state: Mutex::default(),
            reader,
            writer,
            engine: OnceLock::new(),
            closed: CancellationToken::new(),
            wakeups: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        })
    }

    /// Returns the file descriptor that becomes readable when entries wait.
    pub(crate) fn fd(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Appends an entry. Returns `false` and drops the entry if the loop has ended.
    pub(crate) fn push(&self, entry: Entry) -> bool {
        let mut state = self.lock();
        if state.phase == Phase::Closed {
            // Dropped without the lock, because dropping a job can wake tasks, which push entries.
            drop(state);
            drop(entry);
            return false;
        }
        if entry.is_record() {
            if state.records >= MAX_RECORDS {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return true;
            }
            state.records += 1;
        }
        state.entries.push_back(entry);
        let is_urgent = state.entries.len() >= BATCH || !self.is_engine();
        let next = match state.phase {
            Phase::Armed | Phase::Deferred if is_urgent => Phase::Signalled,
            Phase::Armed => Phase::Deferred,
            unchanged => unchanged,
        };
        let is_signal = next == Phase::Signalled && state.phase != next;
        state.phase = next;
        drop(state);
        if is_signal {
            self.signal();
        }
        true
    }

    /// Marks the current thread as the engine's. It must call [`flush`](Self::flush) before it
    /// waits or ends.
    pub(crate) fn set_engine(&self) {
        let _ = self.engine.set(std::thread::current().id());
    }

    fn is_engine(&self) -> bool {
        self.engine
            .get()
            .is_some_and(|engine| *engine == std::thread::current().id())
    }

    /// Wakes the loop if entries wait.
    pub(crate) fn flush(&self) {
        let mut state = self.lock();
        if state.phase == Phase::Deferred {
            state.phase = Phase::Signalled;
            drop(state);
            self.signal();
        }
    }

    /// Returns `true` if the loop has nothing to drain.
    #[cfg(feature = "sandbox")]
    pub(crate) fn is_idle(&self) -> bool {
        let state = self.lock();
        state.entries.is_empty() && matches!(state.phase, Phase::Armed | Phase::Closed)
    }

    /// Clears the signal. Later entries do not signal until the drain ends.
    pub(crate) fn begin_drain(&self) {
        // There is one byte per signal and one signal per drain, so one call reads everything.
        let mut buffer = [0; 16];
        let _ = (&self.reader).read(&mut buffer);
        let mut state = self.lock();
        if state.phase != Phase::Closed {
            state.phase = Phase::Draining;
        }
    }

    /// Takes the oldest entry.
    pub(crate) fn pop(&self) -> Option<Entry> {
        let mut state = self.lock();
        let entry = state.entries.pop_front()?;
        if entry.is_record() {
            state.records -= 1;
        }
        Some(entry)
    }

    /// Signals if entries are left; otherwise the next entry signals.
    pub(crate) fn end_drain(&self) {
        let mut state = self.lock();
        if state.phase != Phase::Draining {
            return;
        }
        if state.entries.is_empty() {
            state.phase = Phase::Armed;
            return;
        }
        state.phase = Phase::Signalled;
        drop(state);
        self.signal();
    }

    /// Waits until the loop has ended.
    pub(crate) async fn closed(&self) {
        self.closed.cancelled().await;
    }

    /// Drops all entries, including later ones.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.phase = Phase::Closed;
        let entries = std::mem::take(&mut state.entries);
        drop(state);
        drop(entries);
        self.closed.cancel();
    }

    /// Returns the number of wake-ups of the loop.
    pub(crate) fn wakeups(&self) -> u64 {
        self.wakeups.load(Ordering::Relaxed)
    }

    /// Returns the number of log records dropped since the last call.
    pub(crate) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }

    fn signal(&self) {
        self.wakeups.fetch_add(1, Ordering::Relaxed);
        // A full socket also wakes the loop.
        let _ = (&self.writer).write(&[1]);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock.
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::sync::oneshot::error::TryRecvError::Closed;

    use super::*;
    use crate::front::traces::Fields;
    use crate::interpreter::attached;

    /// An entry that does nothing.
    fn entry() -> Entry {
        Entry::Run(Box::new(|_| ()))
    }

    fn record() -> Entry {
        Entry::Span(Arc::new(Traced::new("x", None, Fields::default())), 0)
    }

    /// Returns the number of bytes that wait in the socket.
    fn signals(queue: &Queue) -> usize {
        let mut buffer = [0; 16];
        (&queue.reader).read(&mut buffer).unwrap_or(0)
    }

    fn drained(queue: &Queue) -> usize {
        queue.begin_drain();
        let count = std::iter::from_fn(|| queue.pop()).count();
        queue.end_drain();
        count
    }

    #[test]
    fn many_entries_wake_the_loop_once() {
        let queue = Queue::new().unwrap();
        for _ in 0..5 {
            assert!(queue.push(entry()));
        }
        assert_eq!((queue.wakeups(), signals(&queue)), (1, 1));
        assert_eq!(drained(&queue), 5);
        queue.push(entry());
        assert_eq!((queue.wakeups(), signals(&queue)), (2, 1));
    }

    #[test]
    fn entries_of_the_engine_wake_the_loop_when_its_thread_becomes_idle() {
        let queue = Queue::new().unwrap();
        queue.set_engine();
        queue.push(entry());
        assert_eq!(queue.wakeups(), 0);
        queue.flush();
        queue.flush();
        assert_eq!(queue.wakeups(), 1);
        assert_eq!(drained(&queue), 1);
        queue.flush();
        assert_eq!(queue.wakeups(), 1, "nothing waits");
    }

    #[test]
    fn a_full_batch_of_the_engine_wakes_the_loop_at_once() {
        let queue = Queue::new().unwrap();
        queue.set_engine();
        for _ in 1..BATCH {
            queue.push(entry());
        }
        assert_eq!(queue.wakeups(), 0);
        queue.push(entry());
        assert_eq!(queue.wakeups(), 1);
    }

    #[test]
    fn entries_of_other_threads_wake_the_loop_at_once() {
        let queue = Queue::new().unwrap();
        queue.set_engine();
        queue.push(entry());
        std::thread::scope(|scope| {
            scope.spawn(|| queue.push(entry()));
        });
        assert_eq!(queue.wakeups(), 1);
        assert_eq!(drained(&queue), 2);
    }

    #[test]
    fn entries_during_a_drain_are_taken_by_it_or_signalled_at_its_end() {
        let queue = Queue::new().unwrap();
        queue.push(entry());
        queue.begin_drain();
        queue.push(entry());
        assert!(queue.pop().is_some());
        assert!(queue.pop().is_some());
        queue.push(entry());
        assert_eq!(queue.wakeups(), 1);
        queue.end_drain();
        assert_eq!((queue.wakeups(), signals(&queue)), (2, 1));
    }

    #[test]
    fn entries_are_taken_in_their_order() {
        let queue = Queue::new().unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        for number in 0..3 {
            let sender = sender.clone();
            queue.push(Entry::Run(Box::new(move |_| {
                let _ = sender.send(number);
            })));
        }
        attached(|py| {
            while let Some(Entry::Run(action)) = queue.pop() {
                action(py);
            }
            Ok(())
        });
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn records_beyond_the_limit_are_dropped_and_counted() {
        let queue = Queue::new().unwrap();
        for _ in 0..MAX_RECORDS + 3 {
            assert!(queue.push(record()));
        }
        queue.push(entry());
        assert_eq!((queue.take_dropped(), queue.take_dropped()), (3, 0));
        assert_eq!(drained(&queue), MAX_RECORDS + 1);
        queue.push(record());
        assert_eq!(queue.take_dropped(), 0, "taken records make room");
    }

    #[test]
    fn a_closed_queue_drops_its_entries_and_later_ones() {
        let queue = Queue::new().unwrap();
        let (sender, mut receiver) = oneshot::channel();
        queue.push(Entry::Heartbeat(sender));
        queue.close();
        assert!(receiver.try_recv().is_err_and(|error| error == Closed));
        let (sender, mut receiver) = oneshot::channel();
        assert!(!queue.push(Entry::Heartbeat(sender)));
        assert!(receiver.try_recv().is_err_and(|error| error == Closed));
        assert!(queue.pop().is_none());
        assert!(queue.closed().now_or_never().is_some());
        queue.begin_drain();
        queue.end_drain();
        assert!(!queue.push(entry()), "a drain does not open it");
    }
}
