//! Execution of the probe handlers. Reports are cached, and requests that arrive while the handlers
//! run share one report.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::activities::{Error, Finished};

/// Lifetime of a cached report.
const CACHE_LIFETIME: Duration = Duration::from_secs(10);

/// Upper bound for waiting requests; higher than the limit of connections.
const MAX_WAITING: usize = 128;

/// The results of the probe handlers by their ids, or the reason of a failure.
pub(super) type Report = Result<Map<String, Value>, String>;

/// A handle to request reports. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct ReportHandle(mpsc::Sender<oneshot::Sender<Arc<Report>>>);

/// A task that calls the probe handlers and sends the reports.
pub(super) struct Prober<P> {
    probe: P,
    questions: mpsc::Receiver<oneshot::Sender<Arc<Report>>>,
}

impl ReportHandle {
    /// Returns the newest report, at most 10 seconds old; `None` if the prober has ended.
    ///
    /// # Cancellation
    /// Cancel-safe: running handlers continue for later requests.
    pub(super) async fn report(&self) -> Option<Arc<Report>> {
        let (sender, receiver) = oneshot::channel();
        self.0.send(sender).await.ok()?;
        receiver.await.ok()
    }
}

impl<P: AsyncFn() -> Report> Prober<P> {
    /// Creates a prober with a function that calls the handlers.
    pub(super) fn new(probe: P) -> (ReportHandle, Self) {
        let (reports, questions) = mpsc::channel(MAX_WAITING);
        (ReportHandle(reports), Self { probe, questions })
    }

    /// Serves requests until all handles are dropped.
    pub(super) async fn run(mut self) {
        let mut remembered: Option<(Instant, Arc<Report>)> = None;
        while let Some(question) = self.questions.recv().await {
            let report = match &remembered {
                Some((made, report)) if made.elapsed() < CACHE_LIFETIME => Arc::clone(report),
                _ => {
                    let report = Arc::new((self.probe)().await);
                    remembered = Some((Instant::now(), Arc::clone(&report)));
                    report
                }
            };
            // The request may be cancelled.
            let _ = question.send(report);
        }
    }
}

/// Converts the results of the handlers to a report.
pub(super) fn report(outcome: Result<Finished, Error>) -> Report {
    let finished = outcome.map_err(|error| error.to_string())?;
    let values = finished.iter().filter_map(|returned| {
        let value = returned.value.clone()?;
        Some((returned.id.to_string(), value))
    });
    Ok(values.collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A prober that takes 3 seconds per probe and reports their number.
    fn slow_prober() -> (ReportHandle, impl Future<Output = ()>) {
        let count = AtomicU64::new(0);
        let (reports, prober) = Prober::new(async move || {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let count = count.fetch_add(1, Ordering::Relaxed) + 1;
            Ok([("count".to_owned(), Value::from(count))]
                .into_iter()
                .collect())
        });
        (reports, prober.run())
    }

    async fn count(reports: &ReportHandle) -> u64 {
        let report = reports.report().await.unwrap();
        report.as_ref().as_ref().unwrap()["count"].as_u64().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn reports_are_cached_for_10_seconds() {
        let (reports, running) = slow_prober();
        let asking = async {
            assert_eq!(count(&reports).await, 1);
            tokio::time::sleep(Duration::from_millis(9_900)).await;
            assert_eq!(count(&reports).await, 1);
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_eq!(count(&reports).await, 2);
        };
        tokio::select! {
            () = running => panic!("the prober ended"),
            () = asking => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_requests_share_a_report() {
        let (reports, running) = slow_prober();
        let asking = async {
            let counts = futures::future::join_all((0..100).map(|_| count(&reports))).await;
            assert_eq!(counts, [1; 100]);
        };
        tokio::select! {
            () = running => panic!("the prober ended"),
            () = asking => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reports_of_cancelled_requests_are_cached() {
        let (reports, running) = slow_prober();
        let asking = async {
            let impatient = tokio::time::timeout(Duration::from_secs(1), reports.report());
            assert!(impatient.await.is_err());
            let began = Instant::now();
            assert_eq!(count(&reports).await, 1);
            assert_eq!(began.elapsed(), Duration::from_secs(2));
        };
        tokio::select! {
            () = running => panic!("the prober ended"),
            () = asking => {}
        }
    }
}
