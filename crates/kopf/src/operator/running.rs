//! An operator that runs in the background.

use std::future::Future;
use std::net::SocketAddr;

use kopf_engine::health::Health;
use kopf_engine::inspect::Inspect;
use kopf_engine::metrics::Format as MetricsFormat;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Error;

/// An operator that runs in the background. Dropping it aborts the operator at once; to end it
/// properly, [`stop`](Self::stop) it.
#[derive(Debug)]
#[must_use = "the operator is aborted when this is dropped"]
pub struct Running {
    /// One task; it is aborted together with the set.
    task: JoinSet<Result<(), kopf_engine::operator::Error>>,
    stop: CancellationToken,
    inspect: Inspect,
}

impl Running {
    pub(super) fn spawn(
        operator: impl Future<Output = Result<(), kopf_engine::operator::Error>> + Send + 'static,
        stop: CancellationToken,
        inspect: Inspect,
    ) -> Self {
        let mut task = JoinSet::new();
        task.spawn(operator);
        Self {
            task,
            stop,
            inspect,
        }
    }

    /// Stops the operator: handlers that are running can end for as long as
    /// `settings.queueing.exit_timeout` says.
    ///
    /// # Errors
    /// If it has ended before, by an error.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.stop.cancel();
        self.join().await
    }

    /// Waits until the operator ends by itself, which it does only by an error, or is stopped by
    /// [`stopper`](Self::stopper).
    ///
    /// # Errors
    /// The reason for its end.
    ///
    /// # Cancellation
    /// Dropping the future leaves the operator running.
    pub async fn join(&mut self) -> Result<(), Error> {
        match self.task.join_next().await {
            None => Ok(()),
            Some(Ok(result)) => result.map_err(Error::from),
            Some(Err(error)) => Err(Error::Crashed(error)),
        }
    }

    /// Whether the operator hears from the cluster about everything that it serves.
    pub fn health(&self) -> Health {
        self.inspect.health()
    }

    /// Where probes are answered: useful if the port was 0, any free one.
    pub fn probed_at(&self) -> Option<SocketAddr> {
        self.inspect.probed_at()
    }

    /// Returns the address of the endpoint for metrics, if they have their own one.
    pub fn measured_at(&self) -> Option<SocketAddr> {
        self.inspect.measured_at()
    }

    /// Returns all metrics in a format of Prometheus; `None` if `settings.process.metrics` is off. For
    /// programs with their own endpoint.
    pub fn metrics(&self, format: MetricsFormat) -> Option<String> {
        self.inspect.metrics(format)
    }

    /// What stops the operator when it is cancelled, wherever that is done.
    pub fn stopper(&self) -> CancellationToken {
        self.stop.clone()
    }
}
