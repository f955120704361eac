//! The thread for signals and for the time limits of the shutdown.
//!
//! It has its own runtime, so that an async handler that blocks the operator's thread does not
//! delay signals.

use std::io;
use std::thread;
use std::time::Duration;

use kopf_engine::inspect::Inspect;
use kopf_engine::signals;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Time for the main thread to exit after a forced exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// The signal thread. Dropping it stops the thread.
pub(super) struct SignalThread {
    forced: CancellationToken,
    _watching: DropGuard,
}

impl SignalThread {
    /// Starts the thread. It stops the operator on the first signal. After a forced exit, it exits
    /// the process with code 1 if the main thread does not exit in time.
    pub(super) fn start(stop: CancellationToken, inspect: Inspect) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let signals = {
            let _entered = runtime.enter();
            signals::stop_on_signals(stop, inspect)?
        };
        let (forced, watching) = (CancellationToken::new(), CancellationToken::new());
        let started = Self {
            forced: forced.clone(),
            _watching: watching.clone().drop_guard(),
        };
        thread::Builder::new()
            .name("kopf-signals".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    if watching.run_until_cancelled(signals).await.is_none() {
                        return;
                    }
                    forced.cancel();
                    tokio::select! {
                        () = watching.cancelled() => {}
                        () = tokio::time::sleep(EXIT_TIMEOUT) => std::process::exit(1),
                    }
                });
            })?;
        Ok(started)
    }

    /// Waits until an exit is forced. Cancel-safe.
    pub(super) async fn forced(&self) {
        self.forced.cancelled().await;
    }
}
