//! Waiting for the operator: until something is so, until it rests, for some time.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::Stage;

/// For how long a case waits, in virtual time: longer than any request is tried, and longer than
/// any delay in the cases, but those that say so.
const PATIENCE: Duration = Duration::from_secs(900);
/// The same in real time.
const REAL_PATIENCE: Duration = Duration::from_secs(60);

impl Stage {
    fn patience(&self) -> Duration {
        if self.is_virtual() {
            PATIENCE
        } else {
            REAL_PATIENCE
        }
    }

    /// Waits until the object is so, and gives it; null is for an object that is gone.
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
                since.elapsed() < self.patience(),
                "gave up waiting for {name:?} to be {what}: {object:#}"
            );
            sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(200));
        }
    }

    /// Waits until this is so, whatever it is.
    pub(crate) async fn until_so(&self, what: &str, is_so: impl Fn() -> bool) {
        let since = Instant::now();
        while !is_so() {
            assert!(
                since.elapsed() < self.patience(),
                "gave up waiting for {what}"
            );
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the object is handled to the end, and gives it.
    pub(crate) async fn until_handled(&self, name: &str) -> Value {
        self.until(name, "handled", super::is_handled).await
    }

    /// Waits until the object is handled and the operator has settled.
    pub(crate) async fn until_settled(&self, name: &str) -> Value {
        let object = self.until_handled(name).await;
        self.settled().await;
        object
    }

    /// Creates an object with this spec, and waits until it is handled.
    pub(crate) async fn create_handled(&self, name: &str, spec: Value) -> Value {
        self.create(name, spec).await;
        self.until_handled(name).await
    }

    /// Creates an object with this spec, and waits until the operator has settled.
    pub(crate) async fn create_settled(&self, name: &str, spec: Value) {
        self.create(name, spec).await;
        self.settled().await;
    }

    /// Deletes the object, and waits until it is gone.
    pub(crate) async fn delete_wholly(&self, name: &str) {
        self.delete(name).await;
        self.until_gone(name).await;
    }

    /// Waits until the object is gone.
    pub(crate) async fn until_gone(&self, name: &str) {
        self.until(name, "gone", Value::is_null).await;
    }

    /// Waits for what must come within the patience of a case.
    pub(crate) async fn within<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        timeout(self.patience(), work)
            .await
            .unwrap_or_else(|_| panic!("gave up waiting for {what}"))
    }

    /// Waits until the operator has nothing to do now. It may still wait for a time to come.
    ///
    /// With real time, this is a guess, good enough to notice what should not happen.
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
                since.elapsed() < self.patience(),
                "the operator does not come to rest; {} requests are not answered",
                self.recorder.pending(),
            );
        }
    }

    /// Lets time pass, with all that happens meanwhile.
    pub(crate) async fn pass(&self, seconds: f64) {
        sleep(Duration::from_secs_f64(seconds)).await;
        self.settled().await;
    }

    /// Lets time pass, without waiting until the operator has settled.
    pub(crate) async fn sleep(&self, seconds: f64) {
        sleep(Duration::from_secs_f64(seconds)).await;
    }

    /// Continues with real time, for cases in which the server calls webhooks through sockets.
    pub(crate) fn use_real_time(&self) {
        if self.is_virtual() {
            tokio::time::resume();
        }
    }

    /// Lets virtual time pass, and returns the second of each write of the operator since.
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

/// Asserts that few writes in ten minutes become rarer, down to one in two minutes.
#[track_caller]
pub(crate) fn assert_rarer(seconds: &[u32]) {
    assert!((3..=40).contains(&seconds.len()), "{seconds:?}");
    // Several requests of one cycle are in the same second.
    let mut cycles = seconds.to_vec();
    cycles.dedup();
    let gaps: Vec<u32> = cycles.windows(2).map(|pair| pair[1] - pair[0]).collect();
    // Seconds are rounded.
    let grows = gaps.windows(2).all(|pair| pair[0] <= pair[1] + 1);
    assert!(grows, "{gaps:?}");
    assert!(gaps.last().is_some_and(|gap| *gap > 120), "{gaps:?}");
}
