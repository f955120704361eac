//! What the operating system asks a process with an operator for: the first SIGINT or SIGTERM stops
//! the operator gracefully, the second one ends the process at once.
//!
//! Signals belong to processes, not to operators: an operator knows only its stop token, and
//! whoever owns the process connects the two. The end of the process is the owner's, too: here it
//! is only decided upon.

use std::io;
use std::time::Duration;

use futures::stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;

/// Why a process must not wait for its operator any longer. Its exit code is then 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Forced {
    /// The second signal came.
    SecondSignal,
    /// The operator has not stopped within the limit after the first signal.
    TimedOut,
}

/// Listens to the signals from now on. The future stops the operator on the first one, and is ready
/// when the process has to end at once, whatever the operator does.
///
/// `ultimate_exiting_timeout` is the setting of the same name: how long an operator that was
/// stopped by a signal can take.
///
/// # Examples
///
/// ```no_run
/// # use tokio_util::sync::CancellationToken;
/// # async fn run(stop: CancellationToken) {}
/// # async fn example(settings: &kopf_core::settings::Settings) -> std::io::Result<bool> {
/// use kopf_engine::signals;
///
/// let stop = CancellationToken::new();
/// let limit = settings.process.ultimate_exiting_timeout;
/// let forced = signals::stop_on_signals(stop.clone(), limit)?;
/// let is_graceful = tokio::select! {
///     () = run(stop) => true,
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
    ultimate_exiting_timeout: Option<Duration>,
) -> io::Result<impl Future<Output = Forced> + Send> {
    let signals = listen()?;
    Ok(obey(signals, stop, ultimate_exiting_timeout))
}

async fn obey(
    signals: impl Stream<Item = &'static str> + Send,
    stop: CancellationToken,
    limit: Option<Duration>,
) -> Forced {
    tokio::pin!(signals);
    let Some(name) = signals.next().await else {
        return std::future::pending().await;
    };
    tracing::info!("Signal {name} is received. Operator is stopping.");
    stop.cancel();
    let deadline = async {
        match limit {
            Some(limit) => tokio::time::sleep(limit).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        Some(name) = signals.next() => {
            tracing::warn!("Signal {name} is received again. Exiting at once.");
            Forced::SecondSignal
        }
        () = deadline => {
            tracing::error!("The operator has not stopped in time. Exiting at once.");
            Forced::TimedOut
        }
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

    use super::*;

    const LIMIT: Option<Duration> = Some(Duration::from_secs(600));

    #[tokio::test(start_paused = true)]
    async fn the_first_signal_stops_the_operator() {
        let stop = CancellationToken::new();
        let signals = stream::iter(["SIGTERM"]).chain(stream::pending());
        let obeying = obey(signals, stop.clone(), None);
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
            obey(signals, stop.clone(), LIMIT).await,
            Forced::SecondSignal
        );
        assert!(stop.is_cancelled());
    }

    #[tokio::test(start_paused = true)]
    async fn an_operator_that_does_not_stop_is_not_waited_for_forever() {
        let started = tokio::time::Instant::now();
        let signals = stream::iter(["SIGINT"]).chain(stream::pending());
        let forced = obey(signals, CancellationToken::new(), LIMIT).await;
        assert_eq!(forced, Forced::TimedOut);
        assert_eq!(Some(started.elapsed()), LIMIT);
    }

    #[tokio::test(start_paused = true)]
    async fn without_signals_nothing_happens() {
        let stop = CancellationToken::new();
        let obeying = obey(stream::pending(), stop.clone(), LIMIT);
        let outcome = tokio::time::timeout(Duration::from_secs(3_600), obeying).await;
        assert!(outcome.is_err());
        assert!(!stop.is_cancelled());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn real_signals_are_heard() {
        let stop = CancellationToken::new();
        let forced = stop_on_signals(stop.clone(), None).unwrap();
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
            assert!(kill().success());
            std::future::pending::<()>().await;
        };
        tokio::select! {
            forced = forced => assert_eq!(forced, Forced::SecondSignal),
            () = again => {}
        }
    }
}
