//! The signals that ask the process to end.

use std::io;

/// Waits for Ctrl-C, or for a polite request to end by another process, or for the terminal to be
/// closed. Cancel-safe: once dropped, the next signal has its usual effect again only after all
/// are dropped.
#[cfg(unix)]
pub(crate) struct Ending {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Ending {
    /// Signals are caught from now on.
    pub(crate) fn catch() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

#[cfg(not(unix))]
pub(crate) struct Ending;

#[cfg(not(unix))]
impl Ending {
    pub(crate) fn catch() -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn wait(&mut self) {
        // An error means that Ctrl-C cannot be caught: then it ends the process by itself.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
