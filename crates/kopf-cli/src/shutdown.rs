//! Termination signals.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

/// Upper bound of a graceful shutdown after a signal.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Exit code after a second signal: the same as of shells after Ctrl-C.
const INTERRUPTED: i32 = 130;

/// Waits for SIGINT, SIGTERM or SIGHUP.
///
/// A dedicated thread receives the signals: requests that keep all threads of the runtime busy
/// would delay them. It exits the process [`TIMEOUT`] after the first signal, or on the second one,
/// even if requests are still running.
pub(crate) struct ShutdownSignal {
    caught: watch::Receiver<bool>,
    /// Signals are ignored: they are forwarded to a child process, whose exit ends this one.
    released: Arc<AtomicBool>,
}

impl ShutdownSignal {
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
                    match tokio::time::timeout(TIMEOUT, signals.next()).await {
                        Ok(()) => INTERRUPTED,
                        Err(_) => 0,
                    }
                });
                // Acknowledged writes are on disk, and shutdown removes the kubeconfig first.
                std::process::exit(code);
            })?;
        Ok(Self { caught, released })
    }

    /// Ignores all later signals.
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
        // Without a handler, Ctrl-C ends the process.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
