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
