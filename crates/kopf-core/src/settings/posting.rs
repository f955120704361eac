//! Settings of events about objects.

use super::Level;

/// Events about objects, as `kubectl describe` shows them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Posting {
    /// Posts events at all. Default: true.
    pub enabled: bool,
    /// Posts what is logged about an object by its handlers. Default: true.
    pub loggers: bool,
    /// Posts nothing below this level. Default: [`Level::Info`].
    pub level: Level,
    /// Who is named as the reporter, and as the source. Default: `kopf`.
    pub reporting_component: String,
    /// Which instance of the reporter. Default: `dev`.
    pub reporting_instance: String,
    /// What the names of events begin with; the server adds the rest. Default: `kopf-event-`.
    pub event_name_prefix: String,
    /// How many different events can wait for being posted. Default: 1000; repeats are folded into
    /// one, and what comes beyond that is dropped, which is said in the log.
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
