//! The signals that ask the process to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

/// The time that an orderly end may take after a signal.
const PATIENCE: Duration = Duration::from_secs(5);

/// The exit code after a second signal: that of shells for Ctrl-C.
const IMPATIENT: i32 = 130;

/// Waits for Ctrl-C, for a request of another process to end, or for the end of the terminal.
///
/// Signals are received by a thread of their own: requests that keep all threads of the runtime busy would
/// delay them. When the process has not ended [`PATIENCE`] after a signal, or on a second signal, it is
/// ended although requests are still running.
pub(crate) struct Ending {
    caught: watch::Receiver<bool>,
    /// Signals are for another process, which decides when this one ends.
    released: Arc<AtomicBool>,
}

impl Ending {
    /// Catches signals from now on.
    pub(crate) fn catch() -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut signals = {
            let _inside = runtime.enter();
            Signals::catch()?
        };
        let (sender, caught) = watch::channel(false);
        let released = Arc::new(AtomicBool::new(false));
        let is_released = Arc::clone(&released);
        std::thread::Builder::new()
            .name("kopf-signals".to_owned())
            .spawn(move || {
                let code = runtime.block_on(async {
                    signals.next().await;
                    while is_released.load(Ordering::Acquire) {
                        signals.next().await;
                    }
                    sender.send_replace(true);
                    match tokio::time::timeout(PATIENCE, signals.next()).await {
                        Ok(()) => IMPATIENT,
                        Err(_) => 0,
                    }
                });
                // Whatever is answered is on disk if it is to be kept, and the kubeconfig is gone first.
                std::process::exit(code);
            })?;
        Ok(Self { caught, released })
    }

    /// Leaves signals to others from now on.
    pub(crate) fn release(self) {
        self.released.store(true, Ordering::Release);
    }

    pub(crate) async fn wait(&mut self) {
        if self.caught.wait_for(|caught| *caught).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn catch() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn catch() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) {
        // An error means that Ctrl-C cannot be caught: then it ends the process by itself.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
