//! Forwarding of log records from the engine to Python's `logging`, and of spans to OpenTelemetry.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::UNIX_EPOCH;

use kopf_core::outcome::Attachment;
use kopf_engine::logger::attachment;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record as SpanRecord};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::front::queue::{Entry, Queue};
use crate::front::raised::take_displayed;
use crate::front::traces::{self, Fields, TARGET, Traced};

/// Names of the original's loggers by prefixes of targets. The first match is used.
const LOGGERS: [(&str, &str); 16] = [
    ("kopf.objects", "kopf.objects"),
    ("kopf.activities.startup", "kopf.activities.startup"),
    ("kopf.activities.cleanup", "kopf.activities.cleanup"),
    (
        "kopf.activities.authentication",
        "kopf.activities.authentication",
    ),
    ("kopf.activities.probe", "kopf.activities.probe"),
    ("kopf_engine::activities", "kopf._core.engines.activities"),
    ("kopf_engine::peering", "kopf._core.engines.peering"),
    ("kopf_engine::posting", "kopf._core.engines.posting"),
    ("kopf_engine::probing", "kopf._core.engines.probing"),
    ("kopf_engine::admission", "kopf._core.engines.admission"),
    ("kopf_engine::observation", "kopf._core.reactor.observation"),
    (
        "kopf_engine::orchestration",
        "kopf._core.reactor.orchestration",
    ),
    ("kopf_engine::queueing", "kopf._core.reactor.queueing"),
    ("kopf_client", "kopf._cogs.clients.watching"),
    ("kopf_webhooks", "kopf._kits.webhooks"),
    ("kopf", "kopf._core.reactor.running"),
];

/// Returns the names of the loggers; their positions are the numbers of the loggers.
pub(crate) fn logger_names() -> Vec<&'static str> {
    LOGGERS.iter().map(|(_, name)| *name).collect()
}

/// Effective levels of the loggers in the numbers of Python. Refreshed by the drain.
pub(crate) struct Levels {
    loggers: [AtomicI32; LOGGERS.len()],
    /// `true` if the operator uses OpenTelemetry.
    traced: AtomicBool,
}

impl Levels {
    pub(crate) fn new() -> Self {
        Self {
            loggers: std::array::from_fn(|_| AtomicI32::new(0)),
            traced: AtomicBool::new(false),
        }
    }

    /// Sets the levels in the order of the names, and whether spans are recorded.
    pub(crate) fn set(&self, levels: &[i32], traced: bool) {
        for (own, level) in self.loggers.iter().zip(levels) {
            own.store(*level, Ordering::Relaxed);
        }
        self.traced.store(traced, Ordering::Relaxed);
    }

    fn is_enabled(&self, logger: usize, level: i32) -> bool {
        self.loggers
            .get(logger)
            .is_some_and(|own| level >= own.load(Ordering::Relaxed))
    }
}

/// A log record.
pub(crate) struct Record {
    pub(crate) logger: usize,
    pub(crate) level: i32,
    pub(crate) message: String,
    /// Seconds since the epoch.
    pub(crate) created: f64,
    /// The object, by the keys of its reference.
    pub(crate) object: Vec<(&'static str, String)>,
    pub(crate) details: Option<String>,
    pub(crate) attachment: Option<Attachment>,
}

/// A layer that pushes records and spans to the queue. One per operator, for the threads of its
/// engine.
pub(crate) struct ToPython {
    pub(crate) queue: Arc<Queue>,
    pub(crate) levels: Arc<Levels>,
}

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for ToPython {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        let is_forwarded = match logger_of(metadata.target()) {
            Some(_) => !metadata.is_span() || metadata.target() == TARGET,
            None => false,
        };
        // Levels can change at runtime, and OpenTelemetry can be imported.
        if is_forwarded {
            Interest::sometimes()
        } else {
            Interest::never()
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        if metadata.target() == TARGET {
            return self.levels.traced.load(Ordering::Relaxed);
        }
        logger_of(metadata.target())
            .is_some_and(|logger| self.levels.is_enabled(logger, number(*metadata.level())))
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        let parent = span.parent();
        let parent = parent.and_then(|parent| parent.extensions().get::<Arc<Traced>>().cloned());
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let traced = Traced::new(span.name(), parent, fields);
        span.extensions_mut().insert(Arc::new(traced));
    }

    fn on_record(&self, id: &Id, values: &SpanRecord<'_>, context: Context<'_, S>) {
        let span = context.span(id);
        let traced = span.and_then(|span| span.extensions().get::<Arc<Traced>>().cloned());
        if let Some(traced) = traced {
            traced.record(|fields| values.record(fields));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let span = context.span(&id);
        let traced = span.and_then(|span| span.extensions_mut().remove::<Arc<Traced>>());
        if let Some(traced) = traced {
            self.queue.push(Entry::Span(traced, traces::now()));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let Some(logger) = logger_of(metadata.target()) else {
            return;
        };
        let mut record = Record {
            logger,
            level: number(*metadata.level()),
            message: String::new(),
            created: now(),
            object: Vec::new(),
            details: None,
            attachment: attachment(),
        };
        event.record(&mut record);
        if record.attachment.is_none() && *metadata.level() <= Level::WARN {
            record.attachment = take_displayed(&record.message);
        }
        record.logger = renamed(logger, &record.message);
        self.queue.push(Entry::Log(record));
    }
}

impl Visit for Record {
    fn record_str(&mut self, field: &Field, value: &str) {
        let key = match field.name() {
            "k8s.api_version" => "apiVersion",
            "k8s.kind" => "kind",
            "k8s.name" => "name",
            "k8s.uid" => "uid",
            "k8s.namespace" => "namespace",
            "exc_info" => {
                self.details = Some(value.to_owned());
                return;
            }
            _ => return self.record_debug(field, &value),
        };
        self.object.push((key, value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
        }
    }
}

fn logger_of(target: &str) -> Option<usize> {
    LOGGERS
        .iter()
        .position(|(prefix, _)| target.starts_with(prefix))
}

/// Returns the logger of a record that the original writes in another module.
fn renamed(logger: usize, message: &str) -> usize {
    let name = match message.split_once(' ') {
        Some((_, rest)) if rest.starts_with("the watch-stream for") => {
            "kopf._cogs.clients.watching"
        }
        Some(("Initial" | "Re-authentication", _)) => "kopf._core.engines.activities",
        _ => return logger,
    };
    let named = LOGGERS.iter().position(|(_, one)| *one == name);
    named.unwrap_or(logger)
}

fn number(level: Level) -> i32 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}

#[allow(
    clippy::disallowed_methods,
    reason = "log records have the system time"
)]
fn now() -> f64 {
    let since = std::time::SystemTime::now().duration_since(UNIX_EPOCH);
    since.map(|since| since.as_secs_f64()).unwrap_or_default()
}
