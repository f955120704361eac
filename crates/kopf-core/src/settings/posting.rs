//! Settings of k8s-events.

use super::Level;

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
        }
    }
}
