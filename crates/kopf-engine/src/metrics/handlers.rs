//! Metrics of handlers.
//!
//! Series are created when handlers are declared. Sub-handlers of one handler share the series with
//! the id of the parent and `/*`, because their number and ids depend on the objects.

use std::collections::HashMap;
use std::sync::Arc;

use kopf_core::handler::{HandlerId, HandlerKind};
use kopf_core::outcome::{Outcome, Verdict};
use kopf_core::sync::RwLock;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use super::description::{
    BACKGROUND_TASKS, HANDLER_CALLS, HANDLER_DURATION, HANDLER_RETRIES, HANDLER_RUNNING,
    OBJECTS_IN_ERROR,
};
use super::vector::{Vector, counters, durations, gauges};

/// The handler label of handlers that were never declared.
const UNDECLARED: &str = "other";

/// The kind label of sub-handlers.
const SUB: &str = "sub";

#[derive(Debug)]
pub(super) struct Handlers {
    calls: Vector<Counter>,
    durations: Vector<Histogram>,
    retries: Vector<Counter>,
    running: Vector<Gauge>,
    in_error: Vector<Gauge>,
    tasks: Vector<Gauge>,
    known: RwLock<HashMap<HandlerId, Vec<Arc<HandlerSeries>>>>,
}

/// The metrics of one handler, by the kind of its declaration.
#[derive(Debug)]
pub(crate) struct HandlerSeries {
    kind: &'static str,
    calls: [Counter; OutcomeLabel::ALL.len()],
    duration: Histogram,
    retries: Counter,
    running: Gauge,
    pub(super) in_error: Gauge,
    /// For daemons and timers only.
    tasks: Option<Gauge>,
}

labels! {
    /// The outcome of an attempt as a label.
    enum OutcomeLabel {
        Succeeded = "succeeded",
        Unfinished = "unfinished",
        Retried = "retried",
        Failed = "failed",
        Denied = "denied",
        Ignored = "ignored",
        Cancelled = "cancelled",
    }
}

impl OutcomeLabel {
    fn of(outcome: &Outcome) -> Self {
        match &outcome.verdict {
            Verdict::Succeeded => Self::Succeeded,
            Verdict::Unfinished => Self::Unfinished,
            Verdict::Ignored(_) => Self::Ignored,
            Verdict::Denied(_) => Self::Denied,
            Verdict::Cancelled => Self::Cancelled,
            _ if outcome.is_final => Self::Failed,
            _ => Self::Retried,
        }
    }
}

impl Handlers {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            calls: counters(registry, &HANDLER_CALLS),
            durations: durations(registry, &HANDLER_DURATION),
            retries: counters(registry, &HANDLER_RETRIES),
            running: gauges(registry, &HANDLER_RUNNING),
            in_error: gauges(registry, &OBJECTS_IN_ERROR),
            tasks: gauges(registry, &BACKGROUND_TASKS),
            known: RwLock::default(),
        }
    }

    /// Creates the series of a declared handler.
    pub(super) fn declare(&self, id: &HandlerId, kind: HandlerKind) {
        let label = kind_label(kind);
        let mut known = self.known.write();
        let series = known.entry(Arc::clone(id)).or_default();
        if series.iter().all(|series| series.kind != label) {
            series.push(Arc::new(self.make(id, kind)));
        }
    }

    /// Returns the series of a handler, or those shared by the sub-handlers of its parent.
    pub(super) fn series(&self, id: &str, kind: HandlerKind) -> Arc<HandlerSeries> {
        if let Some(series) = self.declared(id, kind_label(kind)) {
            return series;
        }
        let shared = self.shared_label(id);
        if let Some(series) = self.declared(&shared, SUB) {
            return series;
        }
        let kind = HandlerKind::Sub {
            needs_change: false,
        };
        let shared = HandlerId::from(shared);
        self.declare(&shared, kind);
        let made = || Arc::new(self.make(&shared, kind));
        self.declared(&shared, SUB).unwrap_or_else(made)
    }

    fn declared(&self, id: &str, kind: &str) -> Option<Arc<HandlerSeries>> {
        let known = self.known.read();
        let series = known.get(id)?;
        let same = series.iter().find(|series| series.kind == kind);
        same.or(series.first()).cloned()
    }

    /// Returns the label shared by the sub-handlers of the nearest declared parent.
    fn shared_label(&self, id: &str) -> String {
        let known = self.known.read();
        let mut parents = id.rmatch_indices('/').map(|(end, _)| &id[..end]);
        match parents.find(|parent| known.contains_key(*parent)) {
            Some(parent) => format!("{parent}/*"),
            None => UNDECLARED.to_owned(),
        }
    }

    fn make(&self, id: &str, kind: HandlerKind) -> HandlerSeries {
        let label = kind_label(kind);
        HandlerSeries {
            kind: label,
            calls: OutcomeLabel::ALL
                .map(|outcome| self.calls.series([id, label, outcome.as_str()])),
            duration: self.durations.series([id, label]),
            retries: self.retries.series([id, label]),
            running: self.running.series([id, label]),
            in_error: self.in_error.series([id]),
            tasks: kind.is_background().then(|| self.tasks.series([id, label])),
        }
    }
}

impl HandlerSeries {
    /// Counts a daemon or a timer until the guard is dropped.
    pub(crate) fn task(&self) -> Option<TaskCount> {
        let tasks = self.tasks.clone()?;
        tasks.inc();
        Some(TaskCount(tasks))
    }
}

/// Counts a running daemon or timer, until dropped.
#[derive(Debug)]
pub(crate) struct TaskCount(Gauge);

impl Drop for TaskCount {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// An attempt of a handler. Dropping it without an outcome counts as a cancellation.
#[derive(Debug)]
pub(crate) struct AttemptGuard(Option<AttemptStart>);

#[derive(Debug)]
struct AttemptStart {
    series: Arc<HandlerSeries>,
    at: Instant,
}

impl AttemptGuard {
    pub(super) fn unmeasured() -> Self {
        Self(None)
    }

    /// Begins an attempt. `retries` is the number of earlier attempts.
    pub(super) fn begin(series: Arc<HandlerSeries>, retries: u32) -> Self {
        series.running.inc();
        if retries > 0 {
            series.retries.inc();
        }
        let at = Instant::now();
        Self(Some(AttemptStart { series, at }))
    }

    /// Counts the outcome.
    pub(crate) fn finished(mut self, outcome: &Outcome) {
        if let Some(began) = self.0.take() {
            began.end(OutcomeLabel::of(outcome));
        }
    }
}

impl AttemptStart {
    fn end(self, outcome: OutcomeLabel) {
        self.series.running.dec();
        self.series
            .duration
            .observe(self.at.elapsed().as_secs_f64());
        if let Some(calls) = self.series.calls.get(outcome as usize) {
            calls.inc();
        }
    }
}

impl Drop for AttemptGuard {
    fn drop(&mut self) {
        if let Some(began) = self.0.take() {
            began.end(OutcomeLabel::Cancelled);
        }
    }
}

/// Returns the label of a kind.
fn kind_label(kind: HandlerKind) -> &'static str {
    match kind {
        HandlerKind::Event => "event",
        HandlerKind::Create => "create",
        HandlerKind::Update => "update",
        HandlerKind::Delete { .. } => "delete",
        HandlerKind::Resume { .. } => "resume",
        HandlerKind::Field => "field",
        HandlerKind::Reconcile(_) => "reconcile",
        HandlerKind::Child => "child",
        HandlerKind::Convert => "convert",
        HandlerKind::Sub { .. } => SUB,
        HandlerKind::Daemon(_) => "daemon",
        HandlerKind::Timer(_) => "timer",
        HandlerKind::Index => "index",
        HandlerKind::Activity(activity) => activity.as_str(),
        HandlerKind::Admission(type_) => type_.as_str(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(id: &str) -> HandlerId {
        HandlerId::from(id)
    }

    #[test]
    fn sub_handlers_share_the_series_of_their_parent() {
        let handlers = Handlers::register(&mut Registry::default());
        handlers.declare(&id("a"), HandlerKind::Create);
        handlers.declare(&id("a/spec.b"), HandlerKind::Field);
        let sub = HandlerKind::Sub {
            needs_change: false,
        };
        for (id, expected) in [
            ("a/x", "a/*"),
            ("a/x/y", "a/*"),
            ("a/spec.b/x", "a/spec.b/*"),
            ("b/x", "other"),
        ] {
            assert_eq!(handlers.shared_label(id), expected);
            let series = handlers.series(id, sub);
            assert!(Arc::ptr_eq(&series, &handlers.series(id, sub)), "{id}");
        }
        let parent = handlers.series("a", HandlerKind::Create);
        assert!(!Arc::ptr_eq(&parent, &handlers.series("a/x", sub)));
    }

    #[test]
    fn declarations_of_one_id_have_series_by_kind() {
        let handlers = Handlers::register(&mut Registry::default());
        handlers.declare(&id("a"), HandlerKind::Create);
        handlers.declare(&id("a"), HandlerKind::Update);
        let create = handlers.series("a", HandlerKind::Create);
        let update = handlers.series("a", HandlerKind::Update);
        assert_eq!((create.kind, update.kind), ("create", "update"));
    }
}
