//! Metrics of Kubernetes events and of admission reviews.

use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::description::{Description, K8S_EVENTS, K8S_EVENTS_QUEUED, REVIEW_DURATION, REVIEWS};
use super::vector::{Vector, counters, durations};

/// Metrics of posted events.
#[derive(Debug)]
pub(crate) struct PostingMetrics {
    pub(crate) posted: Counter,
    pub(crate) folded: Counter,
    pub(crate) dropped: Counter,
    pub(crate) failed: Counter,
    queued: Gauge,
}

impl PostingMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let events = counters(registry, &K8S_EVENTS);
        let queued = Gauge::default();
        let Description { name, help, .. } = K8S_EVENTS_QUEUED;
        registry.register(name, help, queued.clone());
        Self {
            posted: events.series(["posted"]),
            folded: events.series(["folded"]),
            dropped: events.series(["dropped"]),
            failed: events.series(["failed"]),
            queued,
        }
    }

    /// Sets the length of the queue.
    pub(crate) fn set_queued(&self, length: usize) {
        self.queued.set(i64::try_from(length).unwrap_or(i64::MAX));
    }
}

/// The outcome of a review as a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReviewLabel {
    Allowed,
    Denied,
    /// The review is malformed, or the operator has failed.
    Error,
}

impl ReviewLabel {
    fn as_str(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Denied => "denied",
            Self::Error => "error",
        }
    }
}

/// Metrics of admission reviews.
#[derive(Debug)]
pub(super) struct ReviewMetrics {
    counts: Vector<Counter>,
    durations: Vector<Histogram>,
}

impl ReviewMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            counts: counters(registry, &REVIEWS),
            durations: durations(registry, &REVIEW_DURATION),
        }
    }

    /// Counts a review. The resource must be one that the operator serves.
    pub(super) fn count(&self, resource: &str, outcome: ReviewLabel, duration: Duration) {
        self.counts.series([resource, outcome.as_str()]).inc();
        let durations = self.durations.series([resource]);
        durations.observe(duration.as_secs_f64());
    }
}
