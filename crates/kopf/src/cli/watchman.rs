//! The thread for signals and for the time limits of the shutdown.
//!
//! It has a runtime of its own: an async handler that blocks the thread of the operator must not delay
//! signals.

use std::io;
use std::thread;
use std::time::Duration;

use kopf_engine::inspect::Inspect;
use kopf_engine::signals;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Time for the main thread to exit by itself after the end is forced.
const LAST_MOMENT: Duration = Duration::from_secs(2);

/// The signal thread. It ends when this is dropped.
pub(super) struct Watchman {
    forced: CancellationToken,
    _watching: DropGuard,
}

impl Watchman {
    /// Starts the thread. It stops the operator on the first signal. If the process must end at once and
    /// the main thread does not end it, the thread exits with code 1.
    pub(super) fn start(stop: CancellationToken, inspect: Inspect) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let signals = {
            let _entered = runtime.enter();
            signals::stop_on_signals(stop, inspect)?
        };
        let (forced, watching) = (CancellationToken::new(), CancellationToken::new());
        let watchman = Self {
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
                        () = tokio::time::sleep(LAST_MOMENT) => std::process::exit(1),
                    }
                });
            })?;
        Ok(watchman)
    }

    /// Waits until the process must end at once.
    pub(super) async fn forced(&self) {
        self.forced.cancelled().await;
    }
}
