//! Objects on disk: an append-only log in a folder, for sandboxes that outlive their process.
//!
//! The store keeps all objects in memory and appends every change to a [`Journal`]. A thread writes
//! accumulated changes as one frame with a checksum and calls fsync once per frame (group commit).
//! Responses wait for [`Journal::durable`], so that no response reveals a change that a crash could
//! revert. When most of the log is outdated, it is rewritten with the current objects.

mod error;
mod folder;
mod frame;
mod record;
mod replay;
mod writer;

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar};
use std::thread::JoinHandle;

use tokio::sync::watch;

pub use self::error::DataError;
pub use self::record::{Place, Record};
pub use self::replay::{Recovered, RecoveredObject};
use self::writer::Writer;
use crate::sync::Mutex;

/// The log of one sandbox.
#[derive(Debug)]
pub struct Journal {
    shared: Arc<Shared>,
    progress: watch::Receiver<Progress>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    pending: Mutex<Pending>,
    wake: Condvar,
    /// Records appended so far.
    appended: AtomicU64,
}

/// Records that are not written yet.
#[derive(Debug, Default)]
struct Pending {
    batch: Vec<u8>,
    closing: bool,
}

/// The state of the log on disk.
#[derive(Debug, Clone)]
enum Progress {
    /// The number of durable records.
    Durable(u64),
    /// Writing failed permanently, for this reason.
    Ended(Arc<str>),
}

impl Journal {
    /// Opens a folder, or creates it, and returns its content.
    pub fn open(folder: &Path) -> Result<(Self, Recovered), DataError> {
        let opened = folder::open(folder)?;
        let (sender, progress) = watch::channel(Progress::Durable(0));
        let shared = Arc::new(Shared::default());
        let writer = Writer::new(opened.files, Arc::clone(&shared), sender);
        let thread = std::thread::Builder::new()
            .name("kopf-sandbox-journal".to_owned())
            .spawn(move || writer.run())?;
        let journal = Self {
            shared,
            progress,
            thread: Mutex::new(Some(thread)),
        };
        Ok((journal, opened.recovered))
    }

    /// Appends a change. The caller holds the lock of the store, which keeps the order of
    /// revisions.
    pub fn append(&self, record: &Record<'_>) {
        let mut pending = self.shared.lock();
        if pending.closing {
            return;
        }
        record.encode(&mut pending.batch);
        self.shared.appended.fetch_add(1, Ordering::AcqRel);
        self.shared.wake.notify_one();
    }

    /// Waits until all appended records are durable.
    ///
    /// # Errors
    ///
    /// The log cannot be written. All later calls fail as well.
    pub async fn durable(&self) -> Result<(), Arc<str>> {
        let wanted = self.shared.appended.load(Ordering::Acquire);
        let mut progress = self.progress.clone();
        let reached = progress
            .wait_for(|progress| match progress {
                Progress::Durable(count) => *count >= wanted,
                Progress::Ended(_) => true,
            })
            .await;
        match reached.as_deref() {
            Ok(Progress::Durable(_)) => Ok(()),
            Ok(Progress::Ended(why)) => Err(Arc::clone(why)),
            Err(_) => Err(Arc::from("the data folder is closed")),
        }
    }

    /// Writes the remaining records and releases the folder. Blocks until then.
    pub fn close(&self) {
        {
            let mut pending = self.shared.lock();
            pending.closing = true;
            self.shared.wake.notify_one();
        }
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // A panic of the thread is reported to the callers of `durable`.
            let _ = thread.join();
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Pending> {
        self.pending.lock()
    }
}
