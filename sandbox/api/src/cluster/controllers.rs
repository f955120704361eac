//! Background controllers: garbage collection, deletion of namespaces and CRDs, simulation.
//!
//! Each controller has one task with its own queue. Several of its jobs may wait for webhooks
//! concurrently; jobs that do not wait run one by one in queue order, so that a server under paused
//! time is deterministic. A job names an object to examine, not an operation: it reads the current
//! state and is idempotent.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_store::sync::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Cluster;
use crate::status::Result;
use crate::store::Key;

/// A unit of work of a controller.
#[derive(Debug, Clone)]
pub enum Job {
    /// An object with owners was written: check that the owners exist.
    Dependent { kind: Arc<Kind>, key: Key },
    /// The object with this uid is deleted: collect its dependents.
    OwnerGone { uid: String },
    /// An object is terminating and waits for the garbage collector.
    Terminating { kind: Arc<Kind>, key: Key },
    /// A terminating namespace to empty or remove.
    Namespace { name: String },
    /// A terminating CRD to empty or remove.
    Crd { name: String },
    /// A controller of workloads reconciles an object of its kind, given by its plural name.
    Workload { plural: &'static str, key: Key },
}

impl Job {
    /// Returns the key for deduplication.
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
            Self::Workload { plural, key } => {
                format!("workload {plural}/{}/{}", key.namespace, key.name)
            }
        }
    }

    fn controller(&self) -> Controller {
        match self {
            Self::Dependent { .. } | Self::OwnerGone { .. } | Self::Terminating { .. } => {
                Controller::Garbage
            }
            Self::Namespace { .. } => Controller::Namespaces,
            Self::Crd { .. } => Controller::Crds,
            Self::Workload { .. } => Controller::Workloads,
        }
    }
}

/// A controller. Controllers never wait for each other.
#[derive(Debug, Clone, Copy)]
pub enum Controller {
    Garbage,
    Namespaces,
    Crds,
    Workloads,
}

impl Controller {
    pub const ALL: [Self; 4] = [Self::Garbage, Self::Namespaces, Self::Crds, Self::Workloads];
}

/// The jobs of all controllers.
#[derive(Debug, Default)]
pub struct Jobs {
    garbage: Queue,
    namespaces: Queue,
    crds: Queue,
    workloads: Queue,
}

impl Jobs {
    pub fn push(&self, job: Job) {
        self.of(job.controller()).push(job);
    }

    fn of(&self, controller: Controller) -> &Queue {
        match controller {
            Controller::Garbage => &self.garbage,
            Controller::Namespaces => &self.namespaces,
            Controller::Crds => &self.crds,
            Controller::Workloads => &self.workloads,
        }
    }
}

/// The queue of one controller. A pending job is not queued twice, which bounds the queue by the
/// number of objects. A running job is requeued only after it ends.
#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Job>,
    waiting: HashSet<String>,
    /// Running jobs, each with the same job if it was queued meanwhile.
    running: HashMap<String, Option<Job>>,
}

impl State {
    fn push(&mut self, job: Job) {
        let identity = job.identity();
        if let Some(again) = self.running.get_mut(&identity) {
            *again = Some(job);
        } else if self.waiting.insert(identity) {
            self.queue.push_back(job);
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn push(&self, job: Job) {
        self.lock().push(job);
        self.filled.notify_one();
    }

    fn pop(&self) -> Option<Job> {
        let mut state = self.lock();
        let job = state.queue.pop_front()?;
        let identity = job.identity();
        state.waiting.remove(&identity);
        state.running.insert(identity, None);
        Some(job)
    }

    fn done(&self, job: &Job) {
        let mut state = self.lock();
        if let Some(again) = state.running.remove(&job.identity()).flatten() {
            state.push(again);
        }
    }
}

/// Maximum number of jobs of a controller that wait for webhooks concurrently, as in the real
/// garbage collector.
const AT_ONCE: usize = 20;
/// Delay before a failed job (such as one denied by a webhook) is retried.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

impl Cluster {
    /// Runs the jobs of a controller until the server ends.
    ///
    /// # Cancellation
    /// Nothing is held between two jobs; within a job every write is complete or not started.
    pub async fn run_controller(self: Arc<Self>, controller: Controller) {
        let queue = self.jobs.of(controller);
        let mut running = FuturesUnordered::new();
        let mut failed: Vec<Job> = Vec::new();
        let mut again_at = Instant::now();
        loop {
            while running.len() < AT_ONCE
                && let Some(job) = queue.pop()
            {
                running.push(self.attempt(job));
            }
            tokio::select! {
                // The order is fixed: finished jobs are collected before new ones start.
                biased;
                Some((job, outcome)) = running.next() => {
                    queue.done(&job);
                    if let Err(error) = outcome {
                        tracing::debug!(?job, error = error.message(), "a job of a controller failed and is retried");
                        if failed.is_empty() {
                            again_at = Instant::now() + PAUSE_AFTER_FAILURE;
                        }
                        failed.push(job);
                    }
                    // A long cascade must not starve the other tasks.
                    tokio::task::coop::consume_budget().await;
                }
                () = queue.filled.notified(), if running.len() < AT_ONCE => {}
                () = tokio::time::sleep_until(again_at), if !failed.is_empty() => {
                    failed.drain(..).for_each(|job| queue.push(job));
                }
            }
        }
    }

    async fn attempt(&self, job: Job) -> (Job, Result<()>) {
        let outcome = match &job {
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
            Job::Crd { name } => {
                self.end_crd(name);
                Ok(())
            }
            Job::Workload { plural, key } => match &self.workloads {
                Some(workloads) => workloads.reconcile(self, plural, key).await,
                None => Ok(()),
            },
        };
        (job, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn namespace(name: &str) -> Job {
        Job::Namespace {
            name: name.to_owned(),
        }
    }

    fn names(queue: &Queue) -> Vec<String> {
        let state = queue.lock();
        state.queue.iter().map(Job::identity).collect()
    }

    #[test]
    fn pending_job_is_queued_once() {
        let queue = Queue::default();
        for name in ["a", "b", "a"] {
            queue.push(namespace(name));
        }
        assert_eq!(names(&queue), ["namespace a", "namespace b"]);
    }

    #[test]
    fn running_job_is_requeued_after_it_ends() {
        let queue = Queue::default();
        queue.push(namespace("a"));
        let job = queue.pop().unwrap();
        for name in ["a", "b", "a"] {
            queue.push(namespace(name));
        }
        assert_eq!(names(&queue), ["namespace b"]);
        queue.done(&job);
        assert_eq!(names(&queue), ["namespace b", "namespace a"]);
        while let Some(job) = queue.pop() {
            queue.done(&job);
        }
        assert!(queue.lock().running.is_empty());
    }
}
