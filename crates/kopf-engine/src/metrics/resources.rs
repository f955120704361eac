//! Metrics of resources: events, cycles, patches.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use kopf_core::cause::{EventType, Reason};
use kopf_core::resource::Resource;
use kopf_core::sync::RwLock;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use super::description::{
    CYCLE_FAILURES, CYCLES, EVENTS, OBJECTS, PATCHES, QUEUE_WAIT, WATCH_RELISTS,
};
use super::streams::Streams;
use super::vector::{Vector, counters, durations, gauges};
use super::waiting::Waiting;

#[derive(Debug)]
pub(super) struct Resources {
    events: Vector<Counter>,
    cycles: Vector<Counter>,
    failures: Vector<Counter>,
    patches: Vector<Counter>,
    relists: Vector<Counter>,
    objects: Vector<Gauge>,
    waits: Vector<prometheus_client::metrics::histogram::Histogram>,
    /// By label, which is the full name of the resource.
    known: RwLock<BTreeMap<String, Arc<ResourceMetrics>>>,
}

/// The metrics of one resource in all namespaces.
#[derive(Debug)]
pub(crate) struct ResourceMetrics {
    events: [Counter; EVENT_LABELS.len()],
    cycles: [Counter; REASON_LABELS.len()],
    failures: Counter,
    patches: [Counter; PatchLabel::ALL.len()],
    relists: Counter,
    objects: Gauge,
    pub(super) streams: Streams,
    /// Reconnects of streams that have ended.
    pub(super) past_reconnects: AtomicU64,
    pub(crate) waiting: Waiting,
}

const EVENT_LABELS: [&str; 4] = ["listed", "added", "modified", "deleted"];

const REASON_LABELS: [&str; 8] = [
    "create", "update", "delete", "resume", "noop", "free", "gone", "none",
];

labels! {
    /// The outcome of a patch as a label.
    pub(crate) enum PatchLabel {
        /// The server has accepted the patch, or there was nothing to send.
        Accepted = "accepted",
        /// The object has changed meanwhile.
        Conflict = "conflict",
        /// The server rejects the patch permanently.
        Rejected = "rejected",
        /// The patch is retried.
        Failed = "failed",
        /// The object does not exist.
        NotFound = "not_found",
    }
}

impl Resources {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            events: counters(registry, &EVENTS),
            cycles: counters(registry, &CYCLES),
            failures: counters(registry, &CYCLE_FAILURES),
            patches: counters(registry, &PATCHES),
            relists: counters(registry, &WATCH_RELISTS),
            objects: gauges(registry, &OBJECTS),
            waits: durations(registry, &QUEUE_WAIT),
            known: RwLock::default(),
        }
    }

    /// Returns the metrics of a resource.
    pub(super) fn of(&self, resource: &Resource) -> Arc<ResourceMetrics> {
        let label = resource.to_string();
        let known = self.known.read();
        if let Some(metrics) = known.get(&label) {
            return Arc::clone(metrics);
        }
        drop(known);
        let mut known = self.known.write();
        let made = known
            .entry(label.clone())
            .or_insert_with(|| Arc::new(self.make(&label)));
        Arc::clone(made)
    }

    /// Returns all known resources with their labels.
    pub(super) fn all(&self) -> Vec<(String, Arc<ResourceMetrics>)> {
        let known = self.known.read();
        let all = known.iter();
        all.map(|(label, metrics)| (label.clone(), Arc::clone(metrics)))
            .collect()
    }

    fn make(&self, resource: &str) -> ResourceMetrics {
        ResourceMetrics {
            events: EVENT_LABELS.map(|type_| self.events.series([resource, type_])),
            cycles: REASON_LABELS.map(|reason| self.cycles.series([resource, reason])),
            failures: self.failures.series([resource]),
            patches: PatchLabel::ALL
                .map(|outcome| self.patches.series([resource, outcome.as_str()])),
            relists: self.relists.series([resource]),
            objects: self.objects.series([resource]),
            streams: Streams::default(),
            past_reconnects: AtomicU64::new(0),
            waiting: Waiting::new(self.waits.series([resource])),
        }
    }
}

impl ResourceMetrics {
    /// Counts an event.
    pub(crate) fn event(&self, event: EventType) {
        let position = match event {
            EventType::Listed => 0,
            EventType::Added => 1,
            EventType::Modified => 2,
            EventType::Deleted => 3,
        };
        if let Some(events) = self.events.get(position) {
            events.inc();
        }
    }

    /// Counts a cycle. `None` if there are no change handlers for the object.
    pub(crate) fn cycle(&self, reason: Option<Reason>) {
        let position = match reason {
            Some(Reason::Create) => 0,
            Some(Reason::Update) => 1,
            Some(Reason::Delete) => 2,
            Some(Reason::Resume) => 3,
            Some(Reason::Noop) => 4,
            Some(Reason::Free) => 5,
            Some(Reason::Gone) => 6,
            // A reason without a label is counted as none.
            _ => 7,
        };
        if let Some(cycles) = self.cycles.get(position) {
            cycles.inc();
        }
    }

    /// Counts a cycle that failed in the framework.
    pub(crate) fn cycle_failed(&self) {
        self.failures.inc();
    }

    /// Counts a patch.
    pub(crate) fn patch(&self, outcome: PatchLabel) {
        if let Some(patches) = self.patches.get(outcome as usize) {
            patches.inc();
        }
    }

    /// Counts a listing after the first one of a stream.
    pub(super) fn relisted(&self) {
        self.relists.inc();
    }

    /// Updates the number of objects.
    pub(crate) fn set_objects(&self, before: usize, now: usize) {
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.objects.inc_by(number(now) - number(before));
    }

    /// Returns the number of reconnects.
    pub(super) fn reconnects(&self) -> u64 {
        let past = self.past_reconnects.load(Ordering::Relaxed);
        let streams = self.streams.all().into_iter();
        past + streams.map(|stream| stream.reconnects()).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_in_the_order_of_their_positions() {
        let resources = Resources::register(&mut Registry::default());
        let metrics = resources.make("things");
        for (position, reason) in REASON_LABELS.iter().enumerate() {
            metrics.cycle(Reason::parse(reason));
            assert_eq!(metrics.cycles[position].get(), 1, "{reason}");
        }
        for outcome in PatchLabel::ALL {
            metrics.patch(outcome);
            assert_eq!(metrics.patches[outcome as usize].get(), 1, "{outcome:?}");
        }
    }
}
