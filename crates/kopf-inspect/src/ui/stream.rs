//! The stream of rows to one page, as server-sent events.
//!
//! A stream begins with `reset` (the errors of watching) and `rows` (lists of all rows), followed
//! by `changes` (lists of changed rows and of uids of removed objects). Changes are batched for
//! [`COLLECTING`]. A page that is too slow receives `reset` and all rows again.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::stream::unfold;
use http_body::Frame;
use serde_json::Value;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{sleep, timeout};

use super::api::Api;
use super::rows::Change;

/// The number of rows in one event.
const BATCH: usize = 500;

/// The time in which changes are batched.
const COLLECTING: Duration = Duration::from_millis(250);

/// The interval of keep-alive comments without changes. They detect closed pages.
const SILENCE: Duration = Duration::from_secs(15);

/// The state of a stream.
enum Phase {
    /// Sends `reset`, then all rows.
    Begin,
    /// Sends the remaining rows.
    Sending(std::vec::IntoIter<Value>, Receiver<Change>),
    /// Sends changes.
    Following(Receiver<Change>),
}

/// Returns the stream of events for a new page.
pub(super) fn events(
    api: Arc<Api>,
) -> impl Stream<Item = Result<Frame<Bytes>, Infallible>> + Send + 'static {
    unfold((api, Phase::Begin), |(api, phase)| async {
        let (text, phase) = next(&api, phase).await;
        Some((Ok(Frame::data(Bytes::from(text))), (api, phase)))
    })
}

async fn next(api: &Api, phase: Phase) -> (String, Phase) {
    match phase {
        Phase::Begin => {
            let (rows, changes) = api.rows.subscribe();
            let text = format!("event: reset\ndata: {}\n\n", api.rows.problems());
            (text, Phase::Sending(rows.into_iter(), changes))
        }
        Phase::Sending(mut rows, changes) => {
            let batch: Vec<Value> = rows.by_ref().take(BATCH).collect();
            let text = event("rows", batch);
            let phase = if rows.len() == 0 {
                Phase::Following(changes)
            } else {
                Phase::Sending(rows, changes)
            };
            (text, phase)
        }
        Phase::Following(changes) => follow(changes).await,
    }
}

async fn follow(mut changes: Receiver<Change>) -> (String, Phase) {
    let first = match timeout(SILENCE, changes.recv()).await {
        Err(_) => return (":\n\n".to_owned(), Phase::Following(changes)),
        Ok(Err(RecvError::Lagged(_) | RecvError::Closed)) => {
            return (":\n\n".to_owned(), Phase::Begin);
        }
        Ok(Ok(change)) => change,
    };
    sleep(COLLECTING).await;
    let mut batch = vec![first];
    while batch.len() < BATCH {
        match changes.try_recv() {
            Ok(change) => batch.push(change),
            Err(TryRecvError::Empty) => break,
            Err(TryRecvError::Lagged(_) | TryRecvError::Closed) => {
                return (":\n\n".to_owned(), Phase::Begin);
            }
        }
    }
    (event("changes", batch), Phase::Following(changes))
}

fn event(name: &str, batch: Vec<Value>) -> String {
    // Compact JSON has no line breaks, which would end the event.
    format!("event: {name}\ndata: {}\n\n", Value::Array(batch))
}
