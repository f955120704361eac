//! Settings of the way from an event to the handlers.

use std::time::Duration;

use super::backoffs::seconds;

/// The queues of objects between the streams and the handlers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Queueing {
    /// The number of objects of one stream that are processed concurrently. Default: none,
    /// unlimited: a handler that waits for an hour does not starve other objects.
    pub worker_limit: Option<usize>,
    /// The time for which an object without events keeps its worker in the original. Default: 5
    /// seconds. It has no effect here: idle objects have no workers.
    pub idle_timeout: Duration,
    /// The time for which queued events may still be handled when the operator stops. Default: 2
    /// seconds; the rest is handled after the next start.
    pub exit_timeout: Duration,
    /// The delays after consecutive errors of the framework itself (not of handlers) on an object;
    /// the last delay repeats. Default: 1 second to about 10 minutes, as Fibonacci numbers. Empty:
    /// no delays.
    pub error_delays: Vec<Duration>,
    /// The maximum number of queued events, per object and per stream. Default: 1000; beyond that,
    /// the stream is read more slowly. No events are dropped.
    pub max_events: usize,
    /// The maximum size of queued events in bytes, per stream. Default: 64 MiB; beyond that, the
    /// stream is read more slowly. No events are dropped.
    pub max_bytes: usize,
}

impl Default for Queueing {
    fn default() -> Self {
        Self {
            worker_limit: None,
            idle_timeout: Duration::from_secs(5),
            exit_timeout: Duration::from_secs(2),
            error_delays: seconds([1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610])
                .collect(),
            max_events: 1000,
            max_bytes: 64 * 1024 * 1024,
        }
    }
}

/// The calls of handlers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Execution {
    /// The default delay before a handler is retried after an arbitrary error. Default: 60 seconds.
    pub default_backoff: Duration,
    /// Maximum number of threads for blocking handlers, activities and reviews together, at least 1;
    /// further ones wait. Blocking daemons have threads of their own. Default: `None`, which is the
    /// number of processors plus 32.
    pub max_workers: Option<usize>,
}

impl Default for Execution {
    fn default() -> Self {
        Self {
            default_backoff: Duration::from_secs(60),
            max_workers: None,
        }
    }
}

/// Daemons and timers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Background {
    /// The polling interval for a daemon that does not stop. Default: 60 seconds; until it stops,
    /// its deleted object remains.
    pub cancellation_polling: Duration,
    /// The time to wait for daemons that exit immediately when signalled, before it counts as a
    /// slow exit. Default: none, only the cycles below are awaited.
    pub instant_exit_timeout: Option<Duration>,
    /// The number of scheduler cycles to wait for such daemons. Default: 10; none disables the
    /// wait.
    pub instant_exit_zero_time_cycles: Option<u32>,
}

impl Default for Background {
    fn default() -> Self {
        Self {
            cancellation_polling: Duration::from_secs(60),
            instant_exit_timeout: None,
            instant_exit_zero_time_cycles: Some(10),
        }
    }
}
