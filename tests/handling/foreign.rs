//! Handlers that run outside of the engine: cancelled by a request, and awaited.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kopf_core::outcome::HandlerError;
use kopf_engine::invocation::Work;
use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::front::{done, on};
use crate::stage::sandboxed;

/// Work that never ends by itself and needs some time to end when it is cancelled. Counts those
/// that have ended.
#[derive(Clone, Default)]
struct Endless(Arc<AtomicUsize>);

impl Endless {
    fn work(&self, cleanup: Duration) -> Work {
        let (ended, cancelled) = (Arc::clone(&self.0), CancellationToken::new());
        let cancel = cancelled.clone();
        let done = async move {
            cancelled.cancelled().await;
            sleep(cleanup).await;
            ended.fetch_add(1, Ordering::SeqCst);
            Err(HandlerError::Cancelled)
        };
        Work::Foreign {
            done: Box::pin(done),
            cancel: Some(Box::new(move || cancel.cancel())),
        }
    }

    fn ended(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

const CLEANUP: Duration = Duration::from_secs(2);

#[test]
fn a_timeout_is_recorded_when_the_handler_has_ended() {
    sandboxed(async |stage| {
        let endless = Endless::default();
        let working = endless.clone();
        let slow = on::create("slow").timeout(5.0);
        let slow = slow.works(move |_| working.work(CLEANUP));
        let _operator = stage.run([slow]).await;
        let begun = Instant::now();
        stage.create("obj", json!({})).await;
        stage
            .until_so("the timeout", || {
                stage.log.has("obj", "Handler 'slow' has timed out after")
            })
            .await;
        assert_eq!(endless.ended(), 1);
        assert!(begun.elapsed() >= Duration::from_secs(7));
        stage.until_handled("obj").await;
    });
}

#[test]
fn handlers_are_cancelled_and_awaited_when_the_operator_stops() {
    sandboxed(async |stage| {
        let endless = Endless::default();
        let working = endless.clone();
        let slow = on::create("slow").works(move |_| working.work(CLEANUP));
        let operator = stage
            .operator([slow])
            .settings(|settings| settings.queueing.exit_timeout = Duration::from_secs(1))
            .start()
            .await;
        stage.create("obj", json!({})).await;
        stage
            .until_so("the handler to run", || stage.journal.count("slow") == 1)
            .await;
        let begun = Instant::now();
        operator.stop().await;
        assert_eq!(endless.ended(), 1);
        assert_eq!(begun.elapsed().as_secs(), 3);
    });
}

#[test]
fn handlers_that_ignore_the_end_of_the_operator_are_given_up() {
    sandboxed(async |stage| {
        let endless = Endless::default();
        let working = endless.clone();
        let slow = on::create("slow").works(move |_| working.work(Duration::from_secs(1000)));
        let operator = stage
            .operator([slow])
            .settings(|settings| settings.queueing.exit_timeout = Duration::from_secs(1))
            .start()
            .await;
        stage.create("obj", json!({})).await;
        stage
            .until_so("the handler to run", || stage.journal.count("slow") == 1)
            .await;
        let begun = Instant::now();
        operator.stop().await;
        assert_eq!(endless.ended(), 0);
        assert_eq!(begun.elapsed().as_secs(), 4);
        let records = stage.log.records();
        let is_left = |text: &str| text.contains("outside of the engine are still running: 1.");
        assert!(records.iter().any(|record| is_left(&record.message)));
    });
}

#[test]
fn daemons_are_awaited_for_their_cancellation_timeout() {
    sandboxed(async |stage| {
        let endless = Endless::default();
        let working = endless.clone();
        let watch = on::daemon("watch").cancellation_timeout(5.0);
        let watch = watch.works(move |_| working.work(CLEANUP));
        let _operator = stage.run([watch]).await;
        stage.create_settled("obj", json!({})).await;
        let begun = Instant::now();
        stage.delete_wholly("obj").await;
        assert_eq!(endless.ended(), 1);
        let elapsed = begun.elapsed();
        assert!(
            elapsed >= CLEANUP && elapsed < Duration::from_secs(5),
            "{elapsed:?}"
        );
    });
}

#[test]
fn work_that_cannot_be_cancelled_is_not_interrupted_by_its_timeout() {
    sandboxed(async |stage| {
        let slow = on::create("slow").timeout(5.0).works(|_| Work::Foreign {
            done: Box::pin(async {
                sleep(Duration::from_secs(20)).await;
                done()
            }),
            cancel: None,
        });
        let _operator = stage.run([slow]).await;
        stage.create_handled("obj", json!({})).await;
        assert!(stage.log.has("obj", "Handler 'slow' succeeded."));
    });
}
