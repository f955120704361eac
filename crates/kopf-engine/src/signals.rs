//! What the operating system asks a process with an operator for: the first SIGINT or SIGTERM stops
//! the operator gracefully, the second one ends the process at once.
//!
//! Signals belong to processes, not to operators: an operator knows only its stop token, and
//! whoever owns the process connects the two. The end of the process is the owner's, too: here it
//! is only decided upon.

use std::io;
use std::time::Duration;

use futures::stream::{Stream, StreamExt};
use kopf_core::settings::Process;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::inspect::Inspect;

/// The same signal within this time is the same wish: some programs, as `timeout`, send it to the process
/// and to its group.
const ECHO: Duration = Duration::from_millis(100);

/// Why a process must not wait for its operator any longer. Its exit code is then 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forced {
    /// The second signal came.
    SecondSignal,
    /// The operator has not ended within the limit.
    TimedOut,
}

/// Listens to the signals from now on. The future stops the operator on the first one, and is ready
/// when the process has to end at once, whatever the operator does: at the second signal, or when the
/// operator has been ending for longer than `settings.process.ultimate_exiting_timeout`, for whatever
/// reason it ends.
///
/// # Examples
///
/// ```no_run
/// # async fn example(operator: kopf_engine::Operator, client: kopf_client::Client) -> std::io::Result<bool> {
/// use kopf_engine::signals;
/// use tokio_util::sync::CancellationToken;
///
/// let stop = CancellationToken::new();
/// let forced = signals::stop_on_signals(stop.clone(), operator.inspect())?;
/// let is_graceful = tokio::select! {
///     outcome = operator.run(client, stop) => outcome.is_ok(),
///     _ = forced => false,
/// };
/// # Ok(is_graceful)
/// # }
/// ```
///
/// # Errors
///
/// If the operating system refuses to tell about signals.
pub fn stop_on_signals(
    stop: CancellationToken,
    inspect: Inspect,
) -> io::Result<impl Future<Output = Forced> + Send> {
    let signals = listen()?;
    Ok(obey(signals, stop, inspect))
}

async fn obey(
    signals: impl Stream<Item = &'static str> + Send,
    stop: CancellationToken,
    inspect: Inspect,
) -> Forced {
    // There are no signals after the last one.
    let signals = signals.chain(futures::stream::pending());
    tokio::pin!(signals);
    let patience = async {
        tokio::select! {
            () = stop.cancelled() => {}
            () = inspect.stopping() => {}
        }
        let since = Instant::now();
        // It may still be starting up, and its handlers may decide on the limit.
        tokio::select! {
            biased;
            settings = inspect.known_settings() => run_out(settings.process.ultimate_exiting_timeout, since).await,
            () = run_out(Process::default().ultimate_exiting_timeout, since) => {}
        }
    };
    tokio::pin!(patience);
    let mut last = None;
    loop {
        tokio::select! {
            Some(name) = signals.next() => {
                let now = Instant::now();
                let before = last.replace((name, now));
                if before.is_some_and(|(other, at)| other == name && now - at < ECHO) {
                    continue;
                }
                if stop.is_cancelled() {
                    tracing::warn!("Signal {name} is received again. Exiting at once.");
                    return Forced::SecondSignal;
                }
                tracing::info!("Signal {name} is received. Operator is stopping.");
                stop.cancel();
            }
            () = &mut patience => {
                tracing::error!("The operator has not stopped in time. Exiting at once.");
                return Forced::TimedOut;
            }
        }
    }
}

/// Waits until a process that has been ending since then is not to be waited for.
async fn run_out(limit: Option<Duration>, since: Instant) {
    match limit {
        Some(limit) => sleep(limit.saturating_sub(since.elapsed())).await,
        None => std::future::pending().await,
    }
}

#[cfg(unix)]
fn listen() -> io::Result<impl Stream<Item = &'static str> + Send> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(futures::stream::poll_fn(move |context| {
        if interrupt.poll_recv(context).is_ready() {
            std::task::Poll::Ready(Some("SIGINT"))
        } else {
            terminate
                .poll_recv(context)
                .map(|received| received.map(|()| "SIGTERM"))
        }
    }))
}

#[cfg(not(unix))]
fn listen() -> io::Result<impl Stream<Item = &'static str> + Send> {
    Ok(futures::stream::unfold((), |()| async {
        tokio::signal::ctrl_c().await.ok().map(|()| ("SIGINT", ()))
    }))
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use kopf_core::settings::Settings;

    use super::*;

    /// An operator with this limit.
    fn inspect(limit: Option<u64>) -> Inspect {
        let mut settings = Settings::default();
        settings.process.ultimate_exiting_timeout = limit.map(Duration::from_secs);
        let inspect = Inspect::default();
        inspect.set_settings(settings.into());
        inspect
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_signal_stops_the_operator() {
        let stop = CancellationToken::new();
        let signals = stream::iter(["SIGTERM"]).chain(stream::pending());
        let obeying = obey(signals, stop.clone(), inspect(None));
        tokio::select! {
            forced = obeying => panic!("{forced:?}"),
            () = stop.cancelled() => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_second_signal_ends_the_process() {
        let stop = CancellationToken::new();
        let signals = stream::iter(["SIGTERM", "SIGINT"]).chain(stream::pending());
        assert_eq!(
            obey(signals, stop.clone(), inspect(Some(600))).await,
            Forced::SecondSignal
        );
        assert!(stop.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn an_echo_of_the_first_signal_is_not_the_second() {
        let started = Instant::now();
        let signals = stream::iter([0, 1, 300]).then(|time| async move {
            tokio::time::sleep_until(started + Duration::from_millis(time)).await;
            "SIGTERM"
        });
        let forced = obey(signals, CancellationToken::new(), inspect(Some(600))).await;
        assert_eq!(forced, Forced::SecondSignal);
        assert_eq!(started.elapsed(), Duration::from_millis(300));
    }

    #[tokio::test(start_paused = true)]
    async fn limits_that_are_known_after_the_signal_count() {
        let started = Instant::now();
        let late = Inspect::default();
        let signals = stream::iter(["SIGINT"]).chain(stream::pending());
        let obeying = obey(signals, CancellationToken::new(), late.clone());
        let starting_up = async {
            sleep(Duration::from_secs(2)).await;
            late.set_settings(inspect(Some(7)).settings().unwrap().clone());
            std::future::pending::<()>().await;
        };
        tokio::select! {
            forced = obeying => assert_eq!(forced, Forced::TimedOut),
            () = starting_up => {}
        }
        assert_eq!(started.elapsed(), Duration::from_secs(7));
        let signals = stream::iter(["SIGINT"]).chain(stream::pending());
        let forced = obey(signals, CancellationToken::new(), Inspect::default()).await;
        assert_eq!(forced, Forced::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn an_operator_that_does_not_stop_is_not_waited_for_forever() {
        let started = tokio::time::Instant::now();
        let signals = stream::iter(["SIGINT"]).chain(stream::pending());
        let forced = obey(signals, CancellationToken::new(), inspect(Some(7))).await;
        assert_eq!(forced, Forced::TimedOut);
        assert_eq!(started.elapsed(), Duration::from_secs(7));
    }

    #[tokio::test(start_paused = true)]
    async fn nor_is_one_that_ends_by_an_error() {
        let started = tokio::time::Instant::now();
        let inspect = inspect(Some(7));
        inspect.set_stopping();
        let forced = obey(stream::pending(), CancellationToken::new(), inspect).await;
        assert_eq!(forced, Forced::TimedOut);
        assert_eq!(started.elapsed(), Duration::from_secs(7));
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_waited_for_if_the_settings_say_so() {
        let signals = stream::iter(["SIGINT"]).chain(stream::pending());
        let obeying = obey(signals, CancellationToken::new(), inspect(None));
        let outcome = tokio::time::timeout(Duration::from_secs(86_400), obeying).await;
        assert!(outcome.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn without_signals_nothing_happens() {
        let stop = CancellationToken::new();
        let obeying = obey(stream::pending(), stop.clone(), inspect(Some(600)));
        let outcome = tokio::time::timeout(Duration::from_secs(3_600), obeying).await;
        assert!(outcome.is_err());
        assert!(!stop.is_cancelled());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn real_signals_are_heard() {
        let stop = CancellationToken::new();
        let forced = stop_on_signals(stop.clone(), inspect(None)).unwrap();
        let kill = || {
            let command = format!("kill -TERM {}", std::process::id());
            std::process::Command::new("sh")
                .args(["-c", &command])
                .status()
                .unwrap()
        };
        assert!(kill().success());
        let again = async {
            stop.cancelled().await;
            sleep(ECHO * 2).await;
            assert!(kill().success());
            std::future::pending::<()>().await;
        };
        tokio::select! {
            forced = forced => assert_eq!(forced, Forced::SecondSignal),
            () = again => {}
        }
    }
}
