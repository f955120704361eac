//! The queue from the engine to the event loop of Python.
//!
//! Any thread pushes entries; only [`drain`](crate::drain) takes them out, in the loop's thread. The
//! first entry after a drain writes one byte to a socket that the loop watches, so that many entries
//! share one wake-up and the engine never waits for the interpreter.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::Python;
use tokio::sync::oneshot;

use crate::hosting::Task;
use crate::job::Job;
use crate::logging::Record;

/// Log records that can wait for the loop. More are dropped, and their number is logged.
const MAX_RECORDS: usize = 10_000;

/// Work for the loop's thread.
pub(crate) enum Entry {
    /// A log record.
    Log(Record),
    /// A function of a user to be started.
    Start(Arc<Job>),
    /// A function of a user to be cancelled.
    Cancel(Arc<Job>),
    /// A task of the engine to be polled.
    Poll(Arc<Task>),
    /// Anything else.
    Run(Box<dyn FnOnce(Python<'_>) + Send>),
    /// The health endpoint asks for a sign of life.
    Pulse(oneshot::Sender<()>),
}

/// The queue. It is closed when its loop ends; later entries are dropped.
pub(crate) struct Queue {
    state: Mutex<State>,
    reader: UnixStream,
    writer: UnixStream,
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
    /// The loop is awake, or about to be.
    Signalled,
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
            wakeups: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        })
    }

    /// The file descriptor that becomes readable when entries wait.
    pub(crate) fn fd(&self) -> RawFd {
        self.reader.as_raw_fd()
    }

    /// Appends an entry. Returns `false` if the loop has ended; the entry is dropped then.
    pub(crate) fn push(&self, entry: Entry) -> bool {
        let mut state = self.lock();
        if state.phase == Phase::Closed {
            // Dropped outside of the lock: dropping a job can wake tasks, which push entries.
            drop(state);
            drop(entry);
            return false;
        }
        if matches!(entry, Entry::Log(_)) {
            if state.records >= MAX_RECORDS {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return true;
            }
            state.records += 1;
        }
        state.entries.push_back(entry);
        let is_first = state.phase == Phase::Armed;
        state.phase = Phase::Signalled;
        drop(state);
        if is_first {
            self.signal();
        }
        true
    }

    /// Clears the signal. Entries that arrive from now on signal again.
    pub(crate) fn rearm(&self) {
        let mut buffer = [0; 16];
        while matches!((&self.reader).read(&mut buffer), Ok(count) if count > 0) {}
        let mut state = self.lock();
        if state.phase == Phase::Signalled {
            state.phase = Phase::Armed;
        }
    }

    /// Takes the oldest entry.
    pub(crate) fn pop(&self) -> Option<Entry> {
        let mut state = self.lock();
        let entry = state.entries.pop_front()?;
        if matches!(entry, Entry::Log(_)) {
            state.records -= 1;
        }
        Some(entry)
    }

    /// Signals again if entries are left over.
    pub(crate) fn resignal(&self) {
        let mut state = self.lock();
        if !state.entries.is_empty() && state.phase == Phase::Armed {
            state.phase = Phase::Signalled;
            drop(state);
            self.signal();
        }
    }

    /// Drops all entries, and all that come later.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.phase = Phase::Closed;
        let entries = std::mem::take(&mut state.entries);
        drop(state);
        drop(entries);
    }

    /// The number of wake-ups of the loop so far.
    pub(crate) fn wakeups(&self) -> u64 {
        self.wakeups.load(Ordering::Relaxed)
    }

    /// The number of log records that were dropped since the last call.
    pub(crate) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }

    fn signal(&self) {
        self.wakeups.fetch_add(1, Ordering::Relaxed);
        // A full socket is a signal as well.
        let _ = (&self.writer).write(&[1]);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
