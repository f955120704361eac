//! Waiting for conditions.

use std::time::Duration;

use tokio::time::Instant;

/// Timeout of waiting for a condition. It is long, because only failing tests reach it.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Repeats an attempt until it returns a value; fails the test after a timeout.
///
/// `what` completes the sentence "gave up waiting for …".
pub async fn eventually<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(5);
    loop {
        if let Some(result) = attempt().await {
            return result;
        }
        assert!(Instant::now() < deadline, "gave up waiting for {what}");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(200));
    }
}
