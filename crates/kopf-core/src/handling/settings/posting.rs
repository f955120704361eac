//! Settings of k8s-events.

use std::time::Duration;

use super::{Backoffs, Level};

/// Posting of k8s-events of objects, as listed by `kubectl describe`.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Posting {
    /// Enables posting. Default: `true`.
    pub enabled: bool,
    /// Posts log records of objects: those of handlers, and those of the framework about changes
    /// and failures. Default: `true`.
    pub loggers: bool,
    /// Minimum level of posted events. Default: [`Level::Info`].
    pub level: Level,
    /// `reportingComponent` and `source.component` of events. Default: `kopf`.
    pub reporting_component: String,
    /// `reportingInstance` of events. Default: `dev`.
    pub reporting_instance: String,
    /// `generateName` of events. Default: `kopf-event-`.
    pub event_name_prefix: String,
    /// Maximum number of different events in the queue. Repeats are folded into one; events beyond
    /// the limit are dropped, counted and logged. Default: 1000.
    pub queue_limit: usize,
    /// Delays between attempts to post an event, unless the event has its own. Default: 1, 1, 2, 3,
    /// 5, 8, 13, 21 seconds.
    pub default_backoffs: Backoffs,
    /// Delays between attempts to post a log record. Default: 1, 1, 2, 3, 5 seconds.
    pub logging_backoffs: Backoffs,
}

impl Default for Posting {
    fn default() -> Self {
        Self {
            enabled: true,
            loggers: true,
            level: Level::Info,
            reporting_component: "kopf".to_owned(),
            reporting_instance: "dev".to_owned(),
            event_name_prefix: "kopf-event-".to_owned(),
            queue_limit: 1000,
            default_backoffs: Backoffs::finite(seconds(&[1, 1, 2, 3, 5, 8, 13, 21])),
            logging_backoffs: Backoffs::finite(seconds(&[1, 1, 2, 3, 5])),
        }
    }
}

fn seconds(delays: &[u64]) -> impl Iterator<Item = Duration> {
    delays.iter().copied().map(Duration::from_secs)
}
