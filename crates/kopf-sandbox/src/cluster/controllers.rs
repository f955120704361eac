//! What goes on behind the requests: garbage collection, the end of namespaces, the end of CRDs.
//!
//! One task works off one queue, so that a server under paused time does the same things in the same order.
//! Jobs say where to look, not what to do: each reads the present state and is harmless when repeated.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::Cluster;
use crate::kinds::Kind;
use crate::store::Key;

/// Something to look at.
#[derive(Debug, Clone)]
pub(crate) enum Job {
    /// An object with owners was written: do they exist?
    Dependent { kind: Arc<Kind>, key: Key },
    /// The object with this uid is gone: what depended on it?
    OwnerGone { uid: String },
    /// An object is terminating and waits for the garbage collector.
    Terminating { kind: Arc<Kind>, key: Key },
    /// A namespace may be ready to go.
    Namespace { name: String },
    /// A CRD may be ready to go.
    Crd { name: String },
}

impl Job {
    /// What makes two jobs the same.
    fn identity(&self) -> String {
        let object = |kind: &Kind, key: &Key| {
            format!(
                "{}/{}/{}/{}",
                kind.group, kind.plural, key.namespace, key.name
            )
        };
        match self {
            Self::Dependent { kind, key } => format!("dependent {}", object(kind, key)),
            Self::OwnerGone { uid } => format!("owner {uid}"),
            Self::Terminating { kind, key } => format!("terminating {}", object(kind, key)),
            Self::Namespace { name } => format!("namespace {name}"),
            Self::Crd { name } => format!("crd {name}"),
        }
    }
}

/// The queue of jobs. A job that waits already is not queued again, which bounds the queue by the number of
/// objects.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    queue: Mutex<(VecDeque<Job>, HashSet<String>)>,
    filled: Notify,
}

impl Jobs {
    pub(crate) fn push(&self, job: Job) {
        let (queue, waiting) = &mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.insert(job.identity()) {
            queue.push_back(job);
            self.filled.notify_one();
        }
    }

    fn pop(&self) -> Option<Job> {
        let (queue, waiting) = &mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let job = queue.pop_front()?;
        waiting.remove(&job.identity());
        Some(job)
    }
}

/// How long a job that failed (a webhook said no) waits for its next turn.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

impl Cluster {
    /// Works off the jobs for as long as the server lives.
    ///
    /// # Cancellation
    /// Between two jobs nothing is held; within a job every write is complete or not done.
    pub(crate) async fn run_controllers(self: Arc<Self>) {
        let mut failed: Vec<Job> = Vec::new();
        let mut again_at = Instant::now();
        loop {
            while let Some(job) = self.jobs.pop() {
                if let Err(error) = self.handle(&job).await {
                    tracing::debug!(?job, error = %error.message, "the job is tried again");
                    if failed.is_empty() {
                        again_at = Instant::now() + PAUSE_AFTER_FAILURE;
                    }
                    failed.push(job);
                }
            }
            if failed.is_empty() {
                self.jobs.filled.notified().await;
            } else {
                tokio::select! {
                    () = self.jobs.filled.notified() => {}
                    () = tokio::time::sleep_until(again_at) => {
                        failed.drain(..).for_each(|job| self.jobs.push(job));
                    }
                }
            }
        }
    }

    async fn handle(&self, job: &Job) -> crate::status::Result<()> {
        match job {
            Job::Dependent { kind, key } => self.check_owners(kind, key).await,
            Job::OwnerGone { uid } => {
                for dependent in self.owners.dependents(uid) {
                    self.jobs.push(Job::Dependent {
                        kind: dependent.kind,
                        key: dependent.key,
                    });
                }
                Ok(())
            }
            Job::Terminating { kind, key } => {
                self.end_with_dependents(kind, key);
                Ok(())
            }
            Job::Namespace { name } => self.end_namespace(name).await,
            Job::Crd { name } => self.end_crd(name).await,
        }
    }
}
