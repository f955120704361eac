//! Operators that run in the background.

use std::future::Future;
use std::net::SocketAddr;

use kopf_engine::health::Health;
use kopf_engine::inspect::Inspect;
use kopf_engine::metrics::Format as MetricsFormat;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::RunError;

/// An operator that runs in the background. Dropping it aborts the operator; [`stop`](Self::stop)
/// shuts it down gracefully.
#[derive(Debug)]
#[must_use = "the operator is aborted when this is dropped"]
pub struct Running {
    /// One task, which is aborted when the set is dropped.
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

    /// Stops the operator. Running handlers have `settings.queueing.exit_timeout` to finish.
    ///
    /// ```
    /// # async fn example(running: kopf::Running) -> Result<(), Box<dyn std::error::Error>> {
    /// running.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// If it failed before.
    pub async fn stop(mut self) -> Result<(), RunError> {
        self.stop.cancel();
        self.join().await
    }

    /// Waits until the operator fails, or is stopped by [`stopper`](Self::stopper).
    ///
    /// ```
    /// # async fn example(mut running: kopf::Running) -> Result<(), Box<dyn std::error::Error>> {
    /// let stopper = running.stopper();
    /// # let other_service = async {};
    /// tokio::select! {
    ///     result = running.join() => result?,
    ///     () = other_service => stopper.cancel(),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The error with which the operator failed.
    ///
    /// # Cancellation
    /// Dropping the future leaves the operator running.
    pub async fn join(&mut self) -> Result<(), RunError> {
        match self.task.join_next().await {
            None => Ok(()),
            Some(Ok(result)) => result.map_err(RunError::from),
            Some(Err(error)) => Err(RunError::Crashed(error)),
        }
    }

    /// Returns the health: whether all watch streams of the operator work.
    pub fn health(&self) -> Health {
        self.inspect.health()
    }

    /// Returns the address of the endpoint for probes, such as the chosen port if port 0 was given.
    pub fn probed_at(&self) -> Option<SocketAddr> {
        self.inspect.probed_at()
    }

    /// Returns the address of the endpoint for metrics, if it is a separate one.
    pub fn measured_at(&self) -> Option<SocketAddr> {
        self.inspect.measured_at()
    }

    /// Returns all metrics in a Prometheus format; `None` if `settings.process.metrics` is off. For
    /// programs with their own endpoint.
    ///
    /// ```
    /// # async fn example(running: kopf::Running) -> Result<(), Box<dyn std::error::Error>> {
    /// let text = running.metrics(kopf::MetricsFormat::OpenMetrics).unwrap_or_default();
    /// println!("{text}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn metrics(&self, format: MetricsFormat) -> Option<String> {
        self.inspect.metrics(format)
    }

    /// Returns a token that stops the operator when it is cancelled.
    pub fn stopper(&self) -> CancellationToken {
        self.stop.clone()
    }
}
