//! Signals of the operating system: the first SIGINT, SIGTERM or SIGHUP stops the operator
//! gracefully, the second one ends the process at once.
//!
//! Signals belong to processes, not to operators: an operator only has a stop token, and the owner
//! of the process connects the two. The owner also ends the process; this module only decides when.

use std::io;
#[cfg(unix)]
use std::task::Poll;
use std::time::Duration;

use futures::stream::{Stream, StreamExt};
use kopf_core::settings::{Process, Queueing};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::inspect::Inspect;
use crate::invocation::polled;

/// Time for tasks to end, in addition to the exit timeout of the streams.
pub(crate) const HUNG: Duration = Duration::from_secs(5);

/// Time within which a repeated signal is ignored: some programs, such as `timeout`, send it to the
/// process and to its group.
const ECHO: Duration = Duration::from_millis(100);

/// Interval of checks that the runtime of a stopping operator responds.
const PULSE: Duration = Duration::from_secs(1);

/// The reason to exit without waiting for the operator any longer. The exit code is 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forced {
    /// A second signal was received.
    SecondSignal,
    /// The operator has not stopped within the limit.
    TimedOut,
    /// The runtime of the operator is blocked and cannot stop it.
    Blocked,
}

/// Registers signal handlers immediately. The returned future stops the operator on the first
/// signal.
///
/// It completes when the process must exit regardless of the operator: on the second signal; when
/// stopping takes longer than `settings.process.ultimate_exiting_timeout`, no matter what started
/// it; or when the runtime of the stopping operator runs no task for 5 seconds more than
/// `settings.queueing.exit_timeout`, because an async handler blocks its thread. The latter is only
/// detected if the future is polled in another runtime.
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
/// If the operating system refuses to register the signal handlers.
pub fn stop_on_signals(
    stop: CancellationToken,
    inspect: Inspect,
) -> io::Result<impl Future<Output = Forced> + Send> {
    let signals = listen()?;
    Ok(watch_signals(signals, stop, inspect))
}

async fn watch_signals(
    signals: impl Stream<Item = &'static str> + Send,
    stop: CancellationToken,
    inspect: Inspect,
) -> Forced {
    tokio::select! {
        () = second_signal(signals, &stop) => Forced::SecondSignal,
        forced = forced_exit(&stop, &inspect) => forced,
    }
}

/// Stops the operator on the first signal; returns on the second one.
async fn second_signal(signals: impl Stream<Item = &'static str> + Send, stop: &CancellationToken) {
    tokio::pin!(signals);
    let mut last = None;
    while let Some(name) = signals.next().await {
        let now = Instant::now();
        let before = last.replace((name, now));
        if before.is_some_and(|(other, at)| other == name && now - at < ECHO) {
            continue;
        }
        if stop.is_cancelled() {
            tracing::warn!("Signal {name} is received again. Exiting at once.");
            return;
        }
        tracing::info!("Signal {name} is received. Operator is stopping.");
        stop.cancel();
    }
    std::future::pending::<()>().await;
}

/// Waits for the operator to begin to stop, then until it must be abandoned.
async fn forced_exit(stop: &CancellationToken, inspect: &Inspect) -> Forced {
    tokio::select! {
        () = stop.cancelled() => {}
        () = inspect.stopping() => {}
    }
    let default = || Queueing::default().exit_timeout;
    let exit_timeout = inspect
        .settings()
        .map_or_else(default, |settings| settings.queueing.exit_timeout);
    let limit = exit_timeout.saturating_add(HUNG);
    tokio::select! {
        () = stop_timeout(inspect) => {
            tracing::error!("The operator has not stopped in time. Exiting at once.");
            Forced::TimedOut
        }
        () = unresponsive(inspect, limit) => {
            report_blocked();
            tracing::error!("The operator cannot stop: its thread is blocked. Exiting at once.");
            Forced::Blocked
        }
    }
}

/// Waits for the maximum time that an operator may take to stop.
async fn stop_timeout(inspect: &Inspect) {
    let since = Instant::now();
    // A startup handler that still runs may change the limit.
    tokio::select! {
        biased;
        settings = inspect.known_settings() => sleep_to_limit(settings.process.ultimate_exiting_timeout, since).await,
        () = sleep_to_limit(Process::default().ultimate_exiting_timeout, since) => {}
    }
}

async fn sleep_to_limit(limit: Option<Duration>, since: Instant) {
    match limit {
        Some(limit) => sleep(limit.saturating_sub(since.elapsed())).await,
        None => std::future::pending().await,
    }
}

/// Waits until the runtime of the operator has not responded for this long.
async fn unresponsive(inspect: &Inspect, limit: Duration) {
    while timeout(limit, inspect.responds()).await.is_ok() {
        sleep(PULSE).await;
    }
}

/// Logs which async handlers block threads of the runtime, if any.
pub(crate) fn report_blocked() {
    let handlers = polled();
    if !handlers.is_empty() {
        tracing::warn!(
            "Async handlers block their threads and are abandoned: {}. Blocking code belongs into \
             sync handlers.",
            handlers.join(", ")
        );
    }
}

#[cfg(unix)]
fn listen() -> io::Result<impl Stream<Item = &'static str> + Send> {
    use tokio::signal::unix::{SignalKind, signal};

    let mut signals = [
        ("SIGINT", signal(SignalKind::interrupt())?),
        ("SIGTERM", signal(SignalKind::terminate())?),
        // Sent when a terminal is closed. By default, it would end the process without cleanup.
        ("SIGHUP", signal(SignalKind::hangup())?),
    ];
    Ok(futures::stream::poll_fn(move |context| {
        for (name, signal) in &mut signals {
            if signal.poll_recv(context).is_ready() {
                return Poll::Ready(Some(*name));
            }
        }
        Poll::Pending
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
    async fn first_signal_stops_the_operator() {
        let stop = CancellationToken::new();
        let signals = stream::iter(["SIGTERM"]).chain(stream::pending());
        let watching = watch_signals(signals, stop.clone(), inspect(None));
        tokio::select! {
            forced = watching => panic!("{forced:?}"),
            () = stop.cancelled() => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn second_signal_ends_the_process() {
        let stop = CancellationToken::new();
        let signals = stream::iter(["SIGTERM", "SIGINT"]).chain(stream::pending());
        assert_eq!(
            watch_signals(signals, stop.clone(), inspect(Some(600))).await,
            Forced::SecondSignal
        );
        assert!(stop.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn echo_of_the_first_signal_is_ignored() {
        let started = Instant::now();
        let signals = stream::iter([0, 1, 300]).then(|time| async move {
            tokio::time::sleep_until(started + Duration::from_millis(time)).await;
            "SIGTERM"
        });
        let forced = watch_signals(signals, CancellationToken::new(), inspect(Some(600))).await;
        assert_eq!(forced, Forced::SecondSignal);
        assert_eq!(started.elapsed(), Duration::from_millis(300));
    }

    #[tokio::test(start_paused = true)]
    async fn limits_set_after_the_signal_apply() {
        let started = Instant::now();
        let late = Inspect::default();
        let signals = stream::iter(["SIGINT"]).chain(stream::pending());
        let watching = watch_signals(signals, CancellationToken::new(), late.clone());
        let starting_up = async {
            sleep(Duration::from_secs(2)).await;
            late.set_settings(inspect(Some(7)).settings().unwrap().clone());
            std::future::pending::<()>().await;
        };
        tokio::select! {
            forced = watching => assert_eq!(forced, Forced::TimedOut),
            () = starting_up => {}
        }
        assert_eq!(started.elapsed(), Duration::from_secs(7));
        let signals = stream::iter(["SIGINT"]).chain(stream::pending());
        let forced = watch_signals(signals, CancellationToken::new(), Inspect::default()).await;
        assert_eq!(forced, Forced::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn operator_that_does_not_stop_times_out() {
        let started = tokio::time::Instant::now();
        let signals = stream::iter(["SIGINT"]).chain(stream::pending());
        let forced = watch_signals(signals, CancellationToken::new(), inspect(Some(7))).await;
        assert_eq!(forced, Forced::TimedOut);
        assert_eq!(started.elapsed(), Duration::from_secs(7));
    }

    #[tokio::test(start_paused = true)]
    async fn operator_that_ends_by_an_error_times_out() {
        let started = tokio::time::Instant::now();
        let inspect = inspect(Some(7));
        inspect.set_stopping();
        let forced = watch_signals(stream::pending(), CancellationToken::new(), inspect).await;
        assert_eq!(forced, Forced::TimedOut);
        assert_eq!(started.elapsed(), Duration::from_secs(7));
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_limit_there_is_no_timeout() {
        let signals = stream::iter(["SIGINT"]).chain(stream::pending());
        let watching = watch_signals(signals, CancellationToken::new(), inspect(None));
        let outcome = tokio::time::timeout(Duration::from_secs(86_400), watching).await;
        assert!(outcome.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn without_signals_nothing_happens() {
        let stop = CancellationToken::new();
        let watching = watch_signals(stream::pending(), stop.clone(), inspect(Some(600)));
        let outcome = tokio::time::timeout(Duration::from_secs(3_600), watching).await;
        assert!(outcome.is_err());
        assert!(!stop.is_cancelled());
    }

    #[tokio::test]
    async fn blocked_runtime_is_detected() {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let operator = builder.build().unwrap();
        let inspect = Inspect::default();
        let running = inspect.set_runtime(operator.handle().clone());
        drop(running);
        // This runtime is never driven, as if its thread were blocked.
        unresponsive(&inspect, Duration::from_millis(100)).await;

        let (release, released) = tokio::sync::oneshot::channel::<()>();
        let thread = std::thread::spawn(move || operator.block_on(released));
        let responsive = unresponsive(&inspect, Duration::from_secs(60));
        let noticed = timeout(PULSE * 2, responsive).await;
        assert!(noticed.is_err(), "a free thread responds");
        release.send(()).unwrap();
        thread.join().unwrap().unwrap();
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn real_signals_are_received() {
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
