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
pub(crate) struct Place {
    pub(crate) resource: Arc<Resource>,
    /// `None` for all namespaces, and for cluster-scoped resources.
    pub(crate) namespace: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} in '{namespace}'", self.resource),
            None => write!(f, "{} cluster-wide", self.resource),
        }
    }
}

/// Error of a stream that ends without being stopped.
#[derive(Debug, thiserror::Error)]
#[error("the watch-stream for {place} has ended unexpectedly")]
pub(crate) struct Error {
    place: String,
    #[source]
    source: Option<JoinError>,
}

/// Running streams. Dropping it aborts them.
pub(crate) struct Ensemble<S> {
    start: S,
    running: BTreeMap<Place, CancellationToken>,
    tasks: JoinSet<()>,
    places: HashMap<Id, Place>,
}

impl<S> Ensemble<S>
where
    S: Fn(Place, CancellationToken) -> BoxFuture<'static, ()>,
{
    pub(crate) fn new(start: S) -> Self {
        Self {
            start,
            running: BTreeMap::new(),
            tasks: JoinSet::new(),
            places: HashMap::new(),
        }
    }

    /// Stops the streams that are not wanted, waits for their end, and starts the missing ones.
    pub(crate) async fn adjust(&mut self, wanted: BTreeSet<Place>) -> Result<(), Error> {
        let mut stopping = BTreeSet::new();
        for (place, stop) in &self.running {
            if !wanted.get(place).is_some_and(|now| is_same(place, now)) {
                stop.cancel();
                stopping.insert(place.clone());
            }
        }
        while !stopping.is_empty() {
            let Some((place, error)) = self.ended().await else {
                break;
            };
            match stopping.take(&place) {
                Some(_) if error.is_none() => {}
                _ => return Err(unexpected(&place, error)),
            }
        }
        let missing = wanted
            .into_iter()
            .filter(|place| !self.running.contains_key(place));
        // All streams exist before any of them runs: they notify each other.
        let starting: Vec<_> = missing
            .map(|place| {
                let stop = CancellationToken::new();
                let running = (self.start)(place.clone(), stop.clone());
                (place, stop, running)
            })
            .collect();
        for (place, stop, running) in starting {
            let task = self.tasks.spawn(running);
            self.places.insert(task.id(), place.clone());
            self.running.insert(place, stop);
        }
        Ok(())
    }

    /// Waits for a stream that ends by itself. Cancellation-safe.
    pub(crate) async fn failure(&mut self) -> Error {
        match self.ended().await {
            Some((place, error)) => unexpected(&place, error),
            None => std::future::pending().await,
        }
    }

    /// Stops all streams and waits for their end.
    pub(crate) async fn stop(&mut self) {
        for stop in self.running.values() {
            stop.cancel();
        }
        while let Some((place, error)) = self.ended().await {
            if let Some(error) = error {
                tracing::error!("The watch-stream for {place} has failed: {error}");
            }
        }
    }

    /// Waits for the next stream that ends; `None` if no stream is running.
    async fn ended(&mut self) -> Option<(Place, Option<JoinError>)> {
        loop {
            let (id, error) = match self.tasks.join_next_with_id().await? {
                Ok((id, ())) => (id, None),
                Err(error) => (error.id(), Some(error)),
            };
            if let Some(place) = self.places.remove(&id) {
                self.running.remove(&place);
                return Some((place, error));
            }
        }
    }
}

fn unexpected(place: &Place, source: Option<JoinError>) -> Error {
    Error {
        place: place.to_string(),
        source,
    }
}

/// Returns `true` if a running stream fits the wanted scope. The details are compared as well: a
/// new status subresource changes how objects are patched, and other names or categories can select
/// other handlers.
fn is_same(running: &Place, wanted: &Place) -> bool {
    let (running, wanted) = (&running.resource, &wanted.resource);
    running.namespaced == wanted.namespaced
        && running.kind == wanted.kind
        && running.singular == wanted.singular
        && running.shortcuts == wanted.shortcuts
        && running.categories == wanted.categories
        && running.preferred == wanted.preferred
        && running.subresources == wanted.subresources
}
