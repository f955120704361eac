//! The thread that writes the log.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tokio::sync::watch;

use super::folder::Files;
use super::{Progress, Shared};

/// Minimum size of logs that are rewritten, in bytes.
const SMALLEST_REWRITE: u64 = 8 << 20;

/// Writes appended records until the journal is closed.
#[derive(Debug)]
pub(super) struct Writer {
    files: Files,
    shared: Arc<Shared>,
    progress: watch::Sender<Progress>,
    /// The size of the log after the last rewrite or opening.
    compacted: u64,
}

impl Writer {
    pub(super) fn new(
        files: Files,
        shared: Arc<Shared>,
        progress: watch::Sender<Progress>,
    ) -> Self {
        let compacted = files.size;
        Self {
            files,
            shared,
            progress,
            compacted,
        }
    }

    pub(super) fn run(mut self) {
        let why = loop {
            let Some((batch, count)) = self.next_batch() else {
                break Arc::from("the sandbox has ended");
            };
            if let Err(error) = self.files.append(&batch) {
                tracing::error!(%error, "cannot write the data folder");
                break Arc::from(format!("cannot write the data folder: {error}"));
            }
            self.progress.send_replace(Progress::Durable(count));
            if self.files.size > SMALLEST_REWRITE + 2 * self.compacted {
                if let Err(error) = self.files.compact() {
                    tracing::error!(%error, "cannot rewrite the log of the data folder");
                    break Arc::from(format!("cannot write the data folder: {error}"));
                }
                self.compacted = self.files.size;
            }
        };
        let mut pending = self.shared.lock();
        pending.closing = true;
        pending.batch = Vec::new();
        drop(pending);
        self.progress.send_replace(Progress::Ended(why));
    }

    /// Waits for records. Returns them with the number of records up to them, or `None` at the end.
    fn next_batch(&self) -> Option<(Vec<u8>, u64)> {
        let mut pending = self.shared.lock();
        loop {
            if !pending.batch.is_empty() {
                let batch = std::mem::take(&mut pending.batch);
                // Read under the lock under which records are appended.
                return Some((batch, self.shared.appended.load(Ordering::Acquire)));
            }
            if pending.closing {
                return None;
            }
            pending = self
                .shared
                .wake
                .wait(pending)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}
