//! A set of running streams, adjusted to the wanted scopes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use kopf_core::resource::Resource;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

/// The scope of one stream: a resource, in one namespace or in all of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamScope {
    pub(crate) resource: Arc<Resource>,
    /// `None` for all namespaces, and for cluster-scoped resources.
    pub(crate) namespace: Option<String>,
}

impl fmt::Display for StreamScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} in '{namespace}'", self.resource),
            None => write!(f, "{} cluster-wide", self.resource),
        }
    }
}

/// Error of a stream that ends without being stopped.
#[derive(Debug, thiserror::Error)]
#[error("the watch-stream for {scope} has ended unexpectedly")]
pub(crate) struct Error {
    scope: String,
    #[source]
    source: Option<JoinError>,
}

/// Running streams. Dropping it aborts them.
pub(crate) struct StreamSet<S> {
    start: S,
    running: BTreeMap<StreamScope, CancellationToken>,
    tasks: JoinSet<()>,
    scopes: HashMap<Id, StreamScope>,
}

impl<S> StreamSet<S>
where
    S: Fn(StreamScope, CancellationToken) -> BoxFuture<'static, ()>,
{
    pub(crate) fn new(start: S) -> Self {
        Self {
            start,
            running: BTreeMap::new(),
            tasks: JoinSet::new(),
            scopes: HashMap::new(),
        }
    }

    /// Stops the streams that are not wanted, waits for their end, and starts the missing ones.
    pub(crate) async fn adjust(&mut self, wanted: BTreeSet<StreamScope>) -> Result<(), Error> {
        let mut stopping = BTreeSet::new();
        for (scope, stop) in &self.running {
            // A new status subresource changes how objects are patched, and other names or
            // categories can select other handlers.
            let is_unchanged = |now: &StreamScope| now.resource.is_identical(&scope.resource);
            if !wanted.get(scope).is_some_and(is_unchanged) {
                stop.cancel();
                stopping.insert(scope.clone());
            }
        }
        while !stopping.is_empty() {
            let Some((scope, error)) = self.ended().await else {
                break;
            };
            match stopping.take(&scope) {
                Some(_) if error.is_none() => {}
                _ => return Err(unexpected(&scope, error)),
            }
        }
        let missing = wanted
            .into_iter()
            .filter(|scope| !self.running.contains_key(scope));
        // All streams exist before any of them runs: they notify each other.
        let starting: Vec<_> = missing
            .map(|scope| {
                let stop = CancellationToken::new();
                let running = (self.start)(scope.clone(), stop.clone());
                (scope, stop, running)
            })
            .collect();
        for (scope, stop, running) in starting {
            let task = self.tasks.spawn(running);
            self.scopes.insert(task.id(), scope.clone());
            self.running.insert(scope, stop);
        }
        Ok(())
    }

    /// Waits for a stream that ends by itself. Cancellation-safe.
    pub(crate) async fn failure(&mut self) -> Error {
        match self.ended().await {
            Some((scope, error)) => unexpected(&scope, error),
            None => std::future::pending().await,
        }
    }

    /// Stops all streams and waits for their end.
    pub(crate) async fn stop(&mut self) {
        for stop in self.running.values() {
            stop.cancel();
        }
        while let Some((scope, error)) = self.ended().await {
            if let Some(error) = error {
                tracing::error!("The watch-stream for {scope} has failed: {error}");
            }
        }
    }

    /// Waits for the next stream that ends; `None` if no stream is running.
    async fn ended(&mut self) -> Option<(StreamScope, Option<JoinError>)> {
        loop {
            let (id, error) = match self.tasks.join_next_with_id().await? {
                Ok((id, ())) => (id, None),
                Err(error) => (error.id(), Some(error)),
            };
            if let Some(scope) = self.scopes.remove(&id) {
                self.running.remove(&scope);
                return Some((scope, error));
            }
        }
    }
}

fn unexpected(scope: &StreamScope, source: Option<JoinError>) -> Error {
    Error {
        scope: scope.to_string(),
        source,
    }
}
