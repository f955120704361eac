//! Who listens to signals, and to the clock when the operator ends.
//!
//! A thread of its own: an async handler that blocks holds up everything else in the runtime of the
//! operator, and that is when users press Ctrl-C for the second time.

use std::io;
use std::thread;
use std::time::Duration;

use kopf_engine::inspect::Inspect;
use kopf_engine::signals;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long the process has to end as it wants to, when it is not to wait for the operator any more.
const LAST_MOMENT: Duration = Duration::from_secs(2);

/// It listens until it is dropped.
pub(super) struct Watchman {
    forced: CancellationToken,
    _watching: DropGuard,
}

impl Watchman {
    /// Stops the operator on the first signal. When the process is to end at once, and does not, it is
    /// ended with the code 1.
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

    /// Waits until the process is to end at once.
    pub(super) async fn forced(&self) {
        self.forced.cancelled().await;
    }
}
