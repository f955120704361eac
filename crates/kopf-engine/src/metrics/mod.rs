//! Metrics of one operator, in the formats of OpenMetrics and Prometheus.
//!
//! Every operator has its own registry. Series are looked up once per handler, resource or verb,
//! and stored by the callers. States, such as queue lengths and ages, are computed on every scrape
//! (`states`). The number of series is bounded: labels never contain names of objects.

/// Declares an enum of label values with `ALL` and `as_str`.
macro_rules! labels {
    ($(#[$attribute:meta])* $visibility:vis enum $name:ident {
        $($(#[$documentation:meta])* $variant:ident = $text:literal),* $(,)?
    }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $visibility enum $name {
            $($(#[$documentation])* $variant),*
        }

        impl $name {
            pub(super) const ALL: [Self; [$($text),*].len()] = [$(Self::$variant),*];

            pub(super) fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $text),*
                }
            }
        }
    };
}

mod description;
mod errors;
mod handlers;
mod posting;
mod process;
mod requests;
mod resources;
mod states;
mod streams;
#[cfg(test)]
mod tests;
mod text;
mod vector;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kopf_client::observing::RequestObserver;
use kopf_core::handler::{Handler, HandlerKind};
use kopf_core::resource::Resource;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

pub use self::description::{Description, FAMILIES, Kind};
pub(crate) use self::errors::{ErrorMark, ErrorMarks};
use self::handlers::Handlers;
pub(crate) use self::handlers::{AttemptGuard, HandlerSeries, TaskCount};
use self::posting::ReviewMetrics;
pub(crate) use self::posting::{PostingMetrics, ReviewLabel};
use self::requests::Requests;
use self::resources::Resources;
pub(crate) use self::resources::{PatchLabel, ResourceMetrics};
pub(crate) use self::states::OperatorCounts;
use self::states::{Collecting, Replica, Running, States};
pub(crate) use self::streams::{QueueSize, StreamLabel, StreamMetrics};
pub use self::text::Format;
pub(crate) use self::waiting::Arrival;
use crate::pausing::Pause;

/// The metrics of one operator. Cheap to clone: clones share the series.
///
/// The default value measures nothing.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    handlers: Handlers,
    requests: Arc<Requests>,
    posting: Arc<PostingMetrics>,
    reviews: ReviewMetrics,
    states: Arc<States>,
}

impl Metrics {
    /// Creates a registry with all families and no series.
    pub(crate) fn new() -> Self {
        let mut registry = Registry::default();
        let states = Arc::new(States {
            resources: Resources::register(&mut registry),
            replica: Replica::default(),
            operator: std::sync::OnceLock::new(),
        });
        let handlers = Handlers::register(&mut registry);
        let requests = Arc::new(Requests::register(&mut registry));
        let posting = Arc::new(PostingMetrics::register(&mut registry));
        let reviews = ReviewMetrics::register(&mut registry);
        registry.register_collector(Box::new(Collecting(Arc::clone(&states))));
        Self(Some(Arc::new(Inner {
            registry,
            handlers,
            requests,
            posting,
            reviews,
            states,
        })))
    }

    /// Returns `true` if anything is measured.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Creates the series of all handlers.
    pub(crate) fn declare<F>(&self, registry: &kopf_core::registry::Registry<F>) {
        if let Some(inner) = &self.0 {
            for handler in registry.handlers() {
                inner.handlers.declare(&handler.id, handler.kind);
            }
        }
    }

    /// Sets the sources of the states of the operator.
    pub(crate) fn watch(
        &self,
        counts: impl Fn() -> Option<OperatorCounts> + Send + Sync + 'static,
        pause: Pause,
    ) {
        if let Some(inner) = &self.0 {
            let counts = Box::new(counts);
            // An operator runs once.
            let _ = inner.states.operator.set(Running { counts, pause });
        }
    }

    /// Begins an attempt of a handler. `retries` is the number of earlier attempts.
    pub(crate) fn attempt<F>(&self, handler: &Handler<F>, retries: u32) -> AttemptGuard {
        match &self.0 {
            Some(inner) => {
                let series = inner.handlers.series(&handler.id, handler.kind);
                AttemptGuard::begin(series, retries)
            }
            None => AttemptGuard::unmeasured(),
        }
    }

    /// Returns the series of a handler by its id, regardless of its kind.
    pub(crate) fn of_handler(&self, id: &str) -> Option<Arc<HandlerSeries>> {
        let kind = HandlerKind::Sub {
            needs_change: false,
        };
        Some(self.0.as_ref()?.handlers.series(id, kind))
    }

    /// Counts a daemon or a timer until the guard is dropped.
    pub(crate) fn task<F>(&self, handler: &Handler<F>) -> Option<TaskCount> {
        let handlers = &self.0.as_ref()?.handlers;
        handlers.series(&handler.id, handler.kind).task()
    }

    /// Counts an object on which a daemon or timer is failing, until the mark is dropped.
    pub(crate) fn mark<F>(&self, handler: &Handler<F>) -> Option<ErrorMark> {
        let handlers = &self.0.as_ref()?.handlers;
        let series = handlers.series(&handler.id, handler.kind);
        Some(ErrorMark::new(series))
    }

    /// Returns the metrics of a resource.
    pub(crate) fn resource(&self, resource: &Resource) -> Option<Arc<ResourceMetrics>> {
        Some(self.0.as_ref()?.states.resources.of(resource))
    }

    /// Returns the observer of requests.
    pub(crate) fn observer(&self) -> Option<Arc<dyn RequestObserver>> {
        let requests = Arc::clone(&self.0.as_ref()?.requests);
        Some(requests)
    }

    /// Returns the metrics of Kubernetes events.
    pub(crate) fn posting(&self) -> Option<Arc<PostingMetrics>> {
        Some(Arc::clone(&self.0.as_ref()?.posting))
    }

    /// Counts an admission review. `None` if the resource is unknown.
    pub(crate) fn review(
        &self,
        resource: Option<&Resource>,
        outcome: ReviewLabel,
        duration: Duration,
    ) {
        if let Some(inner) = &self.0 {
            let resource = resource.map(ToString::to_string).unwrap_or_default();
            inner.reviews.count(&resource, outcome, duration);
        }
    }

    /// Sets the leadership of this replica.
    pub fn leading(&self, is_leading: bool) {
        if let Some(inner) = &self.0 {
            let leader = &inner.states.replica.leader;
            leader.store(i64::from(is_leading), Ordering::Relaxed);
        }
    }

    /// Sets the number of shards that this replica holds.
    pub fn shards(&self, count: usize) {
        if let Some(inner) = &self.0 {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            inner.states.replica.shards.store(count, Ordering::Relaxed);
        }
    }

    /// Returns all samples; `None` if nothing is measured.
    pub fn text(&self, format: Format) -> Option<String> {
        let inner = self.0.as_ref()?;
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode(&mut text, &inner.registry);
        Some(format.convert(text))
    }
}
