//! The tasks of an operator, and their shutdown order.

use std::collections::HashMap;
use std::time::Duration;

use kopf_core::admission::WebhookType;
use tokio::task::{Id, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, warn};

use super::Error;
use crate::admission::{CLEANING, Webhooks};
use crate::errors::describe;
use crate::signals::{HUNG, report_blocked};

/// Time limit for aborted tasks to be dropped.
const ABORT_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) const POSTER: &str = "Poster of events";
pub(crate) const RETRIEVER: &str = "Credentials retriever";
pub(crate) const SERVER: &str = "Admission webhook server";
const VALIDATING: &str = "Admission validating configuration manager";
const MUTATING: &str = "Admission mutating configuration manager";
const CONVERSIONS: &str = "Conversion manager";

/// Delay between the removal of webhooks and the end of the webhook server. API servers apply
/// removals with a delay, and reject requests that they cannot review.
const LINGER_DELAY: Duration = Duration::from_secs(2);

/// The tasks of a running operator. Dropping it aborts them.
#[derive(Default)]
pub(crate) struct Root {
    tasks: JoinSet<Result<(), Error>>,
    names: HashMap<Id, &'static str>,
    /// Stops the tasks that react to events. Cancelled first.
    pub(crate) halt: CancellationToken,
    /// Stops the tasks that the others depend on. Cancelled last.
    pub(crate) halt_last: CancellationToken,
    /// Time limit for the tasks that react to events.
    pub(crate) grace: Duration,
    /// The admission requests in progress, if webhook configurations are managed.
    reviews: Option<TaskTracker>,
}

impl Root {
    /// Spawns a task that is dropped when it is stopped.
    pub(crate) fn spawn<T>(&mut self, name: &'static str, halt: CancellationToken, task: T)
    where
        T: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.spawn_graceful(name, async move {
            halt.run_until_cancelled_owned(task).await.unwrap_or(Ok(()))
        });
    }

    /// Spawns a task that handles its stop token itself.
    pub(crate) fn spawn_graceful<T>(&mut self, name: &'static str, task: T)
    where
        T: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let task = self.tasks.spawn(task);
        self.names.insert(task.id(), name);
    }

    /// Spawns the webhook server and the managers of webhook configurations. The server outlives
    /// the managers.
    pub(crate) fn spawn_webhooks(&mut self, webhooks: Webhooks) {
        let managers = [
            (WebhookType::Validating, VALIDATING),
            (WebhookType::Mutating, MUTATING),
        ];
        for (type_, name) in managers {
            if let Some(manager) = webhooks.manager(type_, self.halt.clone()) {
                self.grace = self.grace.max(CLEANING);
                self.reviews = Some(webhooks.reviews());
                self.spawn_graceful(name, async { Ok(manager.await?) });
            }
        }
        if let Some(conversions) = webhooks.conversions(self.halt.clone()) {
            self.grace = self.grace.max(CLEANING);
            self.reviews = Some(webhooks.reviews());
            self.spawn_graceful(CONVERSIONS, async { Ok(conversions.await?) });
        }
        let stop = self.halt_last.clone();
        self.spawn_graceful(SERVER, async { Ok(webhooks.serve(stop).await?) });
    }

    /// Waits until a task ends unexpectedly.
    pub(crate) async fn failure(&mut self) -> Error {
        match self.ended().await {
            Some((task, Ok(()))) => {
                warn!("{task} has finished unexpectedly.");
                Error::Finished { task }
            }
            Some((task, Err(reason))) => {
                error!("{task} has failed: {}", describe(&reason));
                reason
            }
            None => std::future::pending().await,
        }
    }

    /// Stops all tasks: first those that react to events, then those that they depend on.
    pub(crate) async fn stop(mut self) {
        self.halt.cancel();
        let limit = self.grace.saturating_add(HUNG);
        let reacting = self.join(|task| ![POSTER, RETRIEVER, SERVER].contains(&task));
        let is_graceful = timeout(limit, reacting).await.is_ok();
        self.linger().await;
        self.halt_last.cancel();
        if is_graceful && timeout(HUNG, self.join(|_| true)).await.is_ok() {
            debug!("Root tasks are stopped: finishing normally.");
            return;
        }
        let names: Vec<_> = self.names.values().copied().collect();
        warn!("Hung tasks are aborted: {}.", names.join(", "));
        // A task that blocks its thread cannot be aborted and is left running.
        let _ = timeout(ABORT_TIMEOUT, self.tasks.shutdown()).await;
        report_blocked();
    }

    /// Serves webhooks until API servers have applied the removal of the webhooks.
    async fn linger(&self) {
        let is_served = self.names.values().any(|task| *task == SERVER);
        if let Some(reviews) = self.reviews.as_ref().filter(|_| is_served) {
            sleep(LINGER_DELAY).await;
            reviews.close();
            let _ = timeout(HUNG, reviews.wait()).await;
        }
    }

    /// Waits until all of these tasks have ended.
    async fn join(&mut self, awaited: impl Fn(&str) -> bool) {
        while self.names.values().any(|task| awaited(task)) {
            match self.ended().await {
                Some((task, Ok(()))) => debug!("{task} is cancelled."),
                Some((task, Err(reason))) => error!("{task} has failed: {}", describe(&reason)),
                None => break,
            }
        }
    }

    async fn ended(&mut self) -> Option<(&'static str, Result<(), Error>)> {
        let (id, result) = match self.tasks.join_next_with_id().await? {
            Ok((id, result)) => (id, Ok(result)),
            Err(error) => (error.id(), Err(error)),
        };
        let task = self.names.remove(&id).unwrap_or("A task");
        let result = result.unwrap_or_else(|source| Err(Error::Crashed { task, source }));
        Some((task, result))
    }
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;
    use crate::captured::capture;

    #[tokio::test(start_paused = true)]
    async fn hung_and_crashed_tasks_do_not_block_the_shutdown() {
        let captured = capture(Level::WARN);
        let mut root = Root::default();
        root.spawn_graceful("Hung task", std::future::pending());
        root.spawn("Crashing task", root.halt.clone(), async {
            panic!("on purpose");
        });
        let error = root.failure().await;
        assert_eq!(error.to_string(), "Crashing task has crashed");
        let before = tokio::time::Instant::now();
        root.stop().await;
        assert_eq!(before.elapsed(), HUNG);
        assert_eq!(
            captured.messages(Level::WARN),
            ["Hung tasks are aborted: Hung task."]
        );
    }
}
