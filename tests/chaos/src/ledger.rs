//! The ledger of what ran. It is kept by the process that survives: the operator only reports to it,
//! line by line, before and after everything it does.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Where the operator finds the ledger.
pub(crate) const ADDRESS: &str = "KOPF_CHAOS_LEDGER";

/// One step of one handler.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Which life of the operator.
    pub(crate) process: u32,
    pub(crate) step: Step,
    /// The full id of the handler.
    pub(crate) handler: String,
    pub(crate) uid: String,
    /// The version of the object that the handler was called with.
    pub(crate) version: String,
    /// Why it was called; empty if not because of a change.
    pub(crate) reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    Begun,
    Succeeded,
    /// To be tried again.
    Failed,
    /// It was dropped while it ran.
    Dropped,
    /// Something that must not be: what, is in the handler's place.
    Wrong,
}

/// The operator's end of it. Clones share the connection.
#[derive(Debug, Clone)]
pub(crate) struct Reporter(Arc<Mutex<TcpStream>>);

impl Reporter {
    pub(crate) fn connect() -> Result<Self> {
        let address = std::env::var(ADDRESS).context(ADDRESS)?;
        Self::connect_to(&address)
    }

    pub(crate) fn connect_to(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).context("the ledger is not there")?;
        stream.set_nodelay(true)?;
        Ok(Self(Arc::new(Mutex::new(stream))))
    }

    /// Once it has returned, the entry is out of this process, whatever happens to it.
    pub(crate) fn report(&self, entry: &Entry) {
        let Ok(mut line) = serde_json::to_vec(entry) else {
            return;
        };
        line.push(b'\n');
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Without the ledger, there is nobody to tell.
        let _ = stream.write_all(&line);
    }
}

/// The book itself. Clones are the same book.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Vec<Entry>>>);

impl Ledger {
    /// Listens for operators. It does so until the returned tasks are dropped.
    pub(crate) async fn open(&self) -> Result<(String, JoinSet<()>)> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?.to_string();
        let book = self.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut readers = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let book = book.clone();
                readers.spawn(async move {
                    let mut lines = BufReader::new(stream).lines();
                    while let Ok(Some(line)) = lines.next_line().await {
                        // The last line of a killed process may be cut.
                        if let Ok(entry) = serde_json::from_str(&line) {
                            book.lock().push(entry);
                        }
                    }
                });
                while readers.try_join_next().is_some() {}
            }
        });
        Ok((address, tasks))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.lock().clone()
    }
}
