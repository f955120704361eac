//! Runs the probe handlers: reports are cached for a while, and requests that arrive while the handlers run
//! share one report.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::activities::{Error, Finished};

/// Lifetime of a cached report.
const REMEMBERED: Duration = Duration::from_secs(10);

/// Upper bound for waiting requests: more than there can be connections.
const WAITING: usize = 128;

/// The results of the probe handlers by their ids, or the reason of a failure.
pub(super) type Report = Result<Map<String, Value>, String>;

/// Requests reports. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Desk(mpsc::Sender<oneshot::Sender<Arc<Report>>>);

/// Makes reports.
pub(super) struct Prober<P> {
    probe: P,
    questions: mpsc::Receiver<oneshot::Sender<Arc<Report>>>,
}

impl Desk {
    /// Returns the newest report, at most 10 seconds old; `None` if the prober has ended.
    ///
    /// # Cancellation
    /// Cancel-safe: running handlers continue, for the next requests.
    pub(super) async fn report(&self) -> Option<Arc<Report>> {
        let (answer, answered) = oneshot::channel();
        self.0.send(answer).await.ok()?;
        answered.await.ok()
    }
}

impl<P: AsyncFn() -> Report> Prober<P> {
    /// Creates a prober with a function that calls the handlers.
    pub(super) fn new(probe: P) -> (Desk, Self) {
        let (desk, questions) = mpsc::channel(WAITING);
        (Desk(desk), Self { probe, questions })
    }

    /// Makes reports for as long as there are desks.
    pub(super) async fn run(mut self) {
        let mut remembered: Option<(Instant, Arc<Report>)> = None;
        while let Some(question) = self.questions.recv().await {
            let report = match &remembered {
                Some((made, report)) if made.elapsed() < REMEMBERED => Arc::clone(report),
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

    /// A prober that needs 3 seconds for a probe, and says how many there were.
    fn play() -> (Desk, impl Future<Output = ()>) {
        let count = AtomicU64::new(0);
        let (desk, prober) = Prober::new(async move || {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let count = count.fetch_add(1, Ordering::Relaxed) + 1;
            Ok([("count".to_owned(), Value::from(count))]
                .into_iter()
                .collect())
        });
        (desk, prober.run())
    }

    async fn count(desk: &Desk) -> u64 {
        let report = desk.report().await.unwrap();
        report.as_ref().as_ref().unwrap()["count"].as_u64().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_remembered_for_10_seconds() {
        let (desk, running) = play();
        let asking = async {
            assert_eq!(count(&desk).await, 1);
            tokio::time::sleep(Duration::from_millis(9_900)).await;
            assert_eq!(count(&desk).await, 1);
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_eq!(count(&desk).await, 2);
        };
        tokio::select! {
            () = running => panic!("it ended too early"),
            () = asking => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_ask_at_once_share_the_answer() {
        let (desk, running) = play();
        let asking = async {
            let counts = futures::future::join_all((0..100).map(|_| count(&desk))).await;
            assert_eq!(counts, [1; 100]);
        };
        tokio::select! {
            () = running => panic!("it ended too early"),
            () = asking => {}
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_wait_leaves_the_answer_to_the_next_one() {
        let (desk, running) = play();
        let asking = async {
            let impatient = tokio::time::timeout(Duration::from_secs(1), desk.report());
            assert!(impatient.await.is_err());
            let began = Instant::now();
            assert_eq!(count(&desk).await, 1);
            assert_eq!(began.elapsed(), Duration::from_secs(2));
        };
        tokio::select! {
            () = running => panic!("it ended too early"),
            () = asking => {}
        }
    }
}
