//! Objects on which the last attempt of a handler failed.

use std::sync::Arc;

use kopf_core::handler::HandlerId;
use kopf_core::object::handling::Attempted;
use kopf_core::progress::ProgressRecord;
use kopf_core::progress::state::State;

use super::Metrics;
use super::handlers::HandlerSeries;

/// The failing handlers of one object. Dropping it removes the marks of the object.
#[derive(Debug, Default)]
pub(crate) struct ErrorMarks(Vec<Mark>);

#[derive(Debug)]
struct Mark {
    id: HandlerId,
    series: Arc<HandlerSeries>,
}

impl ErrorMarks {
    /// Returns `true` if any of these attempts has failed.
    pub(crate) fn are_in(attempts: &[Attempted]) -> bool {
        attempts.iter().any(|attempt| is_error(&attempt.record))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Marks the handlers that have failed in a cycle. Removes the marks of handlers that have
    /// succeeded or belong to earlier causes.
    pub(crate) fn note(&mut self, metrics: &Metrics, attempts: &[Attempted], progress: &State) {
        let gone: Vec<_> = self
            .0
            .iter()
            .filter(|mark| !has_record(progress, &mark.id))
            .map(|mark| Arc::clone(&mark.id))
            .collect();
        for id in &gone {
            self.clear(id);
        }
        for attempt in attempts {
            if is_error(&attempt.record) {
                self.set(metrics, &attempt.id);
            } else {
                self.clear(&attempt.id);
            }
        }
    }

    fn set(&mut self, metrics: &Metrics, id: &HandlerId) {
        if self.0.iter().any(|mark| mark.id == *id) {
            return;
        }
        let Some(series) = metrics.of_handler(id) else {
            return;
        };
        // An object counts once, regardless of the number of sub-handlers that share the series.
        if !self.has(&series) {
            series.in_error.inc();
        }
        let id = Arc::clone(id);
        self.0.push(Mark { id, series });
    }

    fn clear(&mut self, id: &str) {
        let Some(position) = self.0.iter().position(|mark| *mark.id == *id) else {
            return;
        };
        let Mark { series, .. } = self.0.swap_remove(position);
        if !self.has(&series) {
            series.in_error.dec();
        }
    }

    fn has(&self, series: &Arc<HandlerSeries>) -> bool {
        self.0.iter().any(|mark| Arc::ptr_eq(&mark.series, series))
    }
}

impl Drop for ErrorMarks {
    fn drop(&mut self) {
        while let Some(id) = self.0.first().map(|mark| Arc::clone(&mark.id)) {
            self.clear(&id);
        }
    }
}

/// Returns `true` if the handler or its parent belongs to the current cause.
fn has_record(progress: &State, id: &str) -> bool {
    let parents = id.rmatch_indices('/').map(|(end, _)| &id[..end]);
    std::iter::once(id)
        .chain(parents)
        .any(|id| progress.record(id).is_some())
}

fn is_error(record: &ProgressRecord) -> bool {
    record.failure || (!record.success && record.message.is_some())
}

/// Counts an object on which a daemon or timer is failing, until dropped.
#[derive(Debug)]
pub(crate) struct ErrorMark(Arc<HandlerSeries>);

impl ErrorMark {
    pub(super) fn new(series: Arc<HandlerSeries>) -> Self {
        series.in_error.inc();
        Self(series)
    }
}

impl Drop for ErrorMark {
    fn drop(&mut self) {
        self.0.in_error.dec();
    }
}
