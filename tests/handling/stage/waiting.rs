//! Waiting for conditions, for a settled operator, and for time to pass.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::Stage;

/// Upper bound of waits in virtual time. Longer than the retries of requests and most delays in
/// tests.
const TIME_LIMIT: Duration = Duration::from_secs(900);
/// Upper bound of waits in real time.
const REAL_TIME_LIMIT: Duration = Duration::from_secs(60);

impl Stage {
    fn time_limit(&self) -> Duration {
        if self.is_virtual() {
            TIME_LIMIT
        } else {
            REAL_TIME_LIMIT
        }
    }

    /// Waits until the object satisfies the condition and returns it. A removed object is null.
    pub(crate) async fn until(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Value) -> bool,
    ) -> Value {
        let since = Instant::now();
        let mut pause = Duration::from_millis(5);
        loop {
            let object = self.get(name).await;
            if is_so(&object) {
                return object;
            }
            assert!(
                since.elapsed() < self.time_limit(),
                "timed out waiting for {name:?} to be {what}: {object:#}"
            );
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    /// Waits until the condition is true.
    pub(crate) async fn wait_for(&self, what: &str, is_so: impl Fn() -> bool) {
        let since = Instant::now();
        while !is_so() {
            assert!(
                since.elapsed() < self.time_limit(),
                "timed out waiting for {what}"
            );
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the object is handled and returns it.
    pub(crate) async fn until_handled(&self, name: &str) -> Value {
        self.until(name, "handled", super::is_handled).await
    }

    /// Waits until the object is handled and the operator has settled.
    pub(crate) async fn until_settled(&self, name: &str) -> Value {
        let object = self.until_handled(name).await;
        self.settled().await;
        object
    }

    /// Creates an object with this spec and waits until it is handled.
    pub(crate) async fn create_handled(&self, name: &str, spec: Value) -> Value {
        self.create(name, spec).await;
        self.until_handled(name).await
    }

    /// Creates an object with this spec and waits until the operator has settled.
    pub(crate) async fn create_settled(&self, name: &str, spec: Value) {
        self.create(name, spec).await;
        self.settled().await;
    }

    /// Deletes the object and waits until it is removed.
    pub(crate) async fn delete_and_wait(&self, name: &str) {
        self.delete(name).await;
        self.until_gone(name).await;
    }

    /// Waits until the object is removed.
    pub(crate) async fn until_gone(&self, name: &str) {
        self.until(name, "gone", Value::is_null).await;
    }

    /// Waits for a future within the time limit of tests.
    pub(crate) async fn within<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        timeout(self.time_limit(), work)
            .await
            .unwrap_or_else(|_| panic!("timed out waiting for {what}"))
    }

    /// Waits until the operator is idle or waits for a later time only.
    ///
    /// In real time, this is a heuristic, sufficient to detect unexpected actions.
    pub(crate) async fn settled(&self) {
        let (pause, rounds) = if self.is_virtual() {
            (Duration::from_millis(1), 3)
        } else {
            (Duration::from_millis(50), 4)
        };
        let since = Instant::now();
        let activity = || (self.recorder.requests(), self.log.len());
        let mut quiet = 0;
        while quiet < rounds {
            let before = activity();
            sleep(pause).await;
            let rests = self.is_settled() && self.recorder.pending() == 0;
            quiet = if rests && activity() == before {
                quiet + 1
            } else {
                0
            };
            assert!(
                since.elapsed() < self.time_limit(),
                "the operator does not settle; {} requests are pending",
                self.recorder.pending(),
            );
        }
    }

    /// Lets time pass, then waits until the operator has settled.
    pub(crate) async fn pass(&self, seconds: f64) {
        sleep(Duration::from_secs_f64(seconds)).await;
        self.settled().await;
    }

    /// Lets time pass without waiting for a settled operator.
    pub(crate) async fn sleep(&self, seconds: f64) {
        sleep(Duration::from_secs_f64(seconds)).await;
    }

    /// Switches to real time, for tests in which the server calls webhooks through sockets.
    pub(crate) fn use_real_time(&self) {
        if self.is_virtual() {
            tokio::time::resume();
        }
    }

    /// Lets virtual time pass and returns the seconds of the operator's writes.
    pub(crate) async fn seconds_of_writes(&self, seconds: u32) -> Vec<u32> {
        let mut known = self.writes().len();
        let mut moments = Vec::new();
        for second in 0..seconds {
            self.sleep(1.0).await;
            let written = self.writes().len();
            moments.extend((known..written).map(|_| second));
            known = written;
        }
        moments
    }

    fn is_settled(&self) -> bool {
        let inspects = self.inspects.lock();
        inspects
            .iter()
            .all(kopf_engine::inspect::Inspect::is_settled)
    }
}

/// Asserts that the writes of ten minutes become rarer, down to one in two minutes.
#[track_caller]
pub(crate) fn assert_rarer(seconds: &[u32]) {
    assert!((3..=40).contains(&seconds.len()), "{seconds:?}");
    // Requests of one cycle are in the same second.
    let mut cycles = seconds.to_vec();
    cycles.dedup();
    let gaps: Vec<u32> = cycles.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Seconds are rounded.
    let grows = gaps.windows(2).all(|pair| pair[0] <= pair[1] + 1);
    assert!(grows, "{gaps:?}");
    assert!(gaps.last().is_some_and(|gap| *gap > 120), "{gaps:?}");
}
