//! The ledger of handler calls. The test process keeps it, and the operator reports each step to
//! it, so that kills lose nothing.

use std::io::Write as _;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Environment variable with the address of the ledger.
pub(crate) const ADDRESS: &str = "KOPF_CHAOS_LEDGER";

/// One step of one handler.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The process id of the operator.
    pub(crate) process: u32,
    pub(crate) step: Step,
    /// The full id of the handler.
    pub(crate) handler: String,
    pub(crate) uid: String,
    /// The version of the object that the handler was called with.
    pub(crate) version: String,
    /// The reason of the call; empty for handlers without one.
    pub(crate) reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    Begun,
    Succeeded,
    /// Failed temporarily.
    Failed,
    /// Dropped while it ran.
    Dropped,
    /// A violation, described in the field of the handler.
    Violation,
}

/// The operator's connection to the ledger. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Reporter(Arc<Mutex<TcpStream>>);

impl Reporter {
    pub(crate) fn connect() -> Result<Self> {
        let address = std::env::var(ADDRESS).context(ADDRESS)?;
        Self::connect_to(&address)
    }

    pub(crate) fn connect_to(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).context("cannot connect to the ledger")?;
        stream.set_nodelay(true)?;
        Ok(Self(Arc::new(Mutex::new(stream))))
    }

    /// Sends an entry. After the return, a kill of this process does not lose it.
    pub(crate) fn report(&self, entry: &Entry) {
        let Ok(mut line) = serde_json::to_vec(entry) else {
            return;
        };
        line.push(b'\n');
        let mut stream = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The ledger is closed at the end of the test.
        let _ = stream.write_all(&line);
    }
}

/// All entries. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Vec<Entry>>>);

impl Ledger {
    /// Receives entries until the returned tasks are dropped. Returns the address.
    pub(crate) async fn open(&self) -> Result<(String, JoinSet<()>)> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?.to_string();
        let ledger = self.clone();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut readers = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let ledger = ledger.clone();
                readers.spawn(async move {
                    let mut lines = BufReader::new(stream).lines();
                    while let Ok(Some(line)) = lines.next_line().await {
                        // The last line of a killed process may be incomplete.
                        if let Ok(entry) = serde_json::from_str(&line) {
                            ledger.lock().push(entry);
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
