//! The thread that writes the log.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tokio::sync::watch;

use super::folder::Files;
use super::{Progress, Shared};

/// Logs below this size are not rewritten.
const SMALLEST_REWRITE: u64 = 8 << 20;

/// Writes what is appended, as long as the journal is open.
#[derive(Debug)]
pub(super) struct Writer {
    files: Files,
    shared: Arc<Shared>,
    progress: watch::Sender<Progress>,
    /// The size of the log when it was last rewritten, or opened.
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
                tracing::error!(%error, "the data folder cannot be written");
                break Arc::from(format!("the data folder cannot be written: {error}"));
            }
            self.progress.send_replace(Progress::Durable(count));
            if self.files.size > SMALLEST_REWRITE + 2 * self.compacted {
                if let Err(error) = self.files.compact() {
                    tracing::error!(%error, "the log of the data folder cannot be rewritten");
                    break Arc::from(format!("the data folder cannot be written: {error}"));
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

    /// Waits for records. Returns them with the number of all records up to them; `None` at the end.
    fn next_batch(&self) -> Option<(Vec<u8>, u64)> {
        let mut pending = self.shared.lock();
        loop {
            if !pending.batch.is_empty() {
                let batch = std::mem::take(&mut pending.batch);
                // Counted under the same lock under which records are appended.
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
