//! Objects that other clients change while they are handled: by handlers with a client of their own,
//! by clients that write all the time, by daemons and timers. Each handler succeeds exactly once.

mod changes;
mod deletions;
mod kills;
mod refusals;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Request;
use kopf_engine::invocation::HandlerResult;
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::front::done;
use crate::stage::{Entry, Kind, Stage};

/// The part of the object that a client changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Status,
    Labels,
    Spec,
}

/// Another client of the API, which writes the object `obj`.
#[derive(Clone)]
struct Other {
    client: Client,
    path: String,
    has_status: bool,
}

impl Other {
    fn new(stage: &Stage) -> Self {
        Self {
            client: stage.api.client().clone(),
            path: stage.path("obj"),
            has_status: stage.kind != Kind::Plain,
        }
    }

    /// Writes a value that was never written before. Objects that are gone are ignored.
    async fn write(&self, part: Part) {
        static WRITES: AtomicU64 = AtomicU64::new(1);
        let number = WRITES.fetch_add(1, Ordering::Relaxed);
        self.write_value(part, number).await;
    }

    async fn write_value(&self, part: Part, number: u64) {
        let (path, body) = match part {
            Part::Status if self.has_status => (
                format!("{}/status", self.path),
                json!({"status": {"beat": number}}),
            ),
            Part::Status => (self.path.clone(), json!({"status": {"beat": number}})),
            Part::Labels => {
                let labels = json!({"beat": number.to_string()});
                (self.path.clone(), json!({"metadata": {"labels": labels}}))
            }
            Part::Spec => (self.path.clone(), json!({"spec": {"beat": number}})),
        };
        self.merge(&path, &body).await;
    }

    async fn merge(&self, path: &str, body: &Value) {
        let request = Request::patch(path)
            .header("content-type", "application/merge-patch+json")
            .body(body.to_string().into_bytes().into())
            .unwrap();
        let response = self.client.send(request).await.unwrap();
        let code = response.status().as_u16();
        assert!(matches!(code, 200 | 404), "{code}");
    }

    /// Writes all the time, until the result is dropped.
    fn writing(&self, part: Part, seconds: f64) -> JoinSet<()> {
        let other = self.clone();
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
                other.write(part).await;
            }
        });
        task
    }
}

/// Takes some seconds and succeeds.
async fn slowly(seconds: f64) -> HandlerResult {
    tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
    done()
}

/// Checks the calls of handlers, and that no repetition was noticed.
#[track_caller]
fn check_calls(stage: &Stage, expected: &[(&str, u32)]) {
    let calls = stage.journal.all();
    let calls: Vec<_> = calls.iter().map(Entry::brief).collect();
    assert_eq!(calls, expected);
    check_warnings(stage);
}

/// Checks that nothing is reported as repeated.
#[track_caller]
fn check_warnings(stage: &Stage) {
    for text in ["Handling makes no progress", "does not stay as it was"] {
        assert!(!stage.log.has("obj", text), "{text}");
    }
}
