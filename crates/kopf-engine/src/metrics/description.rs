//! The families of metrics: their names, types, labels and help texts.
//!
//! The same table is in `docs/reference/metrics.md`; a test compares them.

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows. Samples have the suffix `_total`.
    Counter,
    /// A number that grows and shrinks.
    Gauge,
    /// Counts of observations in buckets. Samples have the suffixes `_bucket`, `_sum`, `_count`.
    Histogram,
}

impl Kind {
    /// Returns the name in the exposition formats.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The description of a family of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// The name, without the suffixes of samples.
    pub name: &'static str,
    /// The type.
    pub kind: Kind,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// One sentence without a period.
    pub help: &'static str,
}

const fn counter(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Description {
    let kind = Kind::Counter;
    Description {
        name,
        kind,
        labels,
        help,
    }
}

const fn gauge(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Description {
    Description {
        kind: Kind::Gauge,
        ..counter(name, labels, help)
    }
}

const fn histogram(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Description {
    Description {
        kind: Kind::Histogram,
        ..counter(name, labels, help)
    }
}

macro_rules! families {
    ($($name:ident = $description:expr;)*) => {
        $(pub(super) const $name: Description = $description;)*

        /// All families, in the order of the documentation.
        pub const FAMILIES: &[Description] = &[$($name),*];
    };
}

families! {
    EVENTS = counter("kopf_events", &["resource", "type"],
        "Events received from listings and watch streams");
    QUEUE_EVENTS = gauge("kopf_queue_events", &["resource"],
        "Events that wait to be processed");
    QUEUE_BYTES = gauge("kopf_queue_bytes", &["resource"],
        "Size of the events that wait to be processed");
    QUEUE_OLDEST = gauge("kopf_queue_oldest_seconds", &["resource"],
        "Age of the oldest event that waits to be processed");
    QUEUE_WAIT = histogram("kopf_queue_wait_seconds", &["resource"],
        "Time from the arrival of an event to its processing");
    OBJECTS = gauge("kopf_objects", &["resource"],
        "Known objects");
    OBJECT_WORKERS = gauge("kopf_object_workers", &["state"],
        "Objects that are worked on, sleep until a retry, or back off after a failure");
    CYCLES = counter("kopf_cycles", &["resource", "reason"],
        "Handling cycles");
    CYCLE_FAILURES = counter("kopf_cycle_failures", &["resource"],
        "Handling cycles that failed in the framework, and are retried");
    HANDLER_CALLS = counter("kopf_handler_calls", &["handler", "kind", "outcome"],
        "Attempts of handlers");
    HANDLER_DURATION = histogram("kopf_handler_duration_seconds", &["handler", "kind"],
        "Duration of the attempts of handlers");
    HANDLER_RETRIES = counter("kopf_handler_retries", &["handler", "kind"],
        "Attempts of handlers after the first one");
    HANDLER_RUNNING = gauge("kopf_handler_running", &["handler", "kind"],
        "Attempts of handlers that are running");
    OBJECTS_IN_ERROR = gauge("kopf_objects_in_error", &["handler"],
        "Objects on which the last attempt of the handler failed");
    BACKGROUND_TASKS = gauge("kopf_background_tasks", &["handler", "kind"],
        "Daemons and timers, one for each object and handler");
    WATCH_STREAMS = gauge("kopf_watch_streams", &["resource", "state"],
        "Watch streams by state");
    WATCH_AGE = gauge("kopf_watch_age_seconds", &["resource"],
        "Time since the last response or line of the most silent watch stream, bookmarks included");
    WATCH_RECONNECTS = counter("kopf_watch_reconnects", &["resource"],
        "Watches opened again");
    WATCH_RELISTS = counter("kopf_watch_relists", &["resource"],
        "Listings after the first one of a watch stream");
    API_REQUESTS = counter("kopf_api_requests", &["verb", "resource", "code"],
        "Requests to the API server");
    API_DURATION = histogram("kopf_api_request_duration_seconds", &["verb", "resource"],
        "Time from a request to the API server to the headers of its response");
    PATCHES = counter("kopf_patches", &["resource", "outcome"],
        "Patches of objects");
    K8S_EVENTS = counter("kopf_k8s_events", &["outcome"],
        "Kubernetes events of objects");
    K8S_EVENTS_QUEUED = gauge("kopf_k8s_events_queued", &[],
        "Kubernetes events that wait to be posted");
    REVIEWS = counter("kopf_admission_reviews", &["resource", "outcome"],
        "Admission reviews");
    REVIEW_DURATION = histogram("kopf_admission_review_duration_seconds", &["resource"],
        "Duration of admission reviews");
    PAUSED = gauge("kopf_paused", &[],
        "1 if the operator is paused by a peer");
    LEADER = gauge("kopf_leader", &[],
        "1 if this replica is the leader; absent without leader election");
    SHARDS = gauge("kopf_shards", &[],
        "Shards held by this replica; absent without sharding");
    HEALTHY = gauge("kopf_healthy", &[],
        "1 if the operator receives events of all served resources");
    BUILD_INFO = gauge("kopf_build_info", &["version"],
        "Always 1; the label is the version of the framework");
    PROCESS_CPU = counter("process_cpu_seconds", &[],
        "User and system CPU time of the process");
    PROCESS_START = gauge("process_start_time_seconds", &[],
        "Start of the process in seconds since the Unix epoch");
    PROCESS_MEMORY = gauge("process_resident_memory_bytes", &[],
        "Resident memory of the process");
    PROCESS_VIRTUAL = gauge("process_virtual_memory_bytes", &[],
        "Virtual memory of the process");
    PROCESS_FDS = gauge("process_open_fds", &[],
        "Open file descriptors of the process");
    PROCESS_MAX_FDS = gauge("process_max_fds", &[],
        "Limit of open file descriptors of the process");
    PROCESS_THREADS = gauge("process_threads", &[],
        "Threads of the process");
}
