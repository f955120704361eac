//! Waiting for what a server does in its own time.

use std::time::Duration;

use tokio::time::Instant;

/// How long anything may take before a test gives up on it. Generous, because it is only ever
/// spent by a test that fails.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// Repeats an attempt until it gives something; fails the test when it never does.
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
