//! Loggers of objects and activities.
//!
//! A record of an object contains the identity of the object, and is also posted as a Kubernetes
//! event if the settings enable that. Records of activities have no object and are never posted.
//!
//! Handlers and the engine log through the same type. Records go to the target [`TARGET`] of
//! `tracing` with the fields `k8s.api_version`, `k8s.kind`, `k8s.name`, `k8s.uid`, `k8s.namespace`
//! (absent ones are omitted), and `exc_info` with the chain of an error. Records of activities have
//! the target `kopf.activities.<name>`. The subscriber formats the records; logging never waits.

use std::cell::RefCell;
use std::fmt::{self, Display};
use std::sync::Arc;

use kopf_core::handler::{Activity, HandlerKind};
use kopf_core::outcome::Attachment;
use kopf_core::reference::ObjectReference;
use kopf_core::wording::Level;

use crate::posting::Poster;

/// The target of all records of objects.
pub const TARGET: &str = "kopf.objects";

const STARTUP: &str = "kopf.activities.startup";
const CLEANUP: &str = "kopf.activities.cleanup";
const AUTHENTICATION: &str = "kopf.activities.authentication";
const PROBE: &str = "kopf.activities.probe";

/// A logger of one object or of one activity. Cheap to clone.
///
/// A message is formatted only if its record is written or posted.
#[derive(Clone)]
pub struct ObjectLogger {
    reference: Arc<ObjectReference>,
    poster: Poster,
    destination: Destination,
    activity: Option<Activity>,
}

/// Destinations of the records of a logger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    /// The log and the events of the object.
    Events,
    /// The log; warnings and errors are also events of the object.
    Problems,
    /// The log only.
    Log,
    /// The log only. Info and debug messages need one more level of verbosity.
    Terse,
}

impl ObjectLogger {
    /// Returns a logger for an object. With a poster, its records are also events of the object.
    pub fn new(reference: Arc<ObjectReference>, poster: Option<Poster>) -> Self {
        Self {
            reference,
            poster: poster.unwrap_or_else(Poster::disabled),
            destination: Destination::Events,
            activity: None,
        }
    }

    /// Returns a logger of an activity. Its records are never posted.
    pub fn of_activity(activity: Activity) -> Self {
        Self {
            reference: Arc::default(),
            poster: Poster::disabled(),
            destination: Destination::Log,
            activity: Some(activity),
        }
    }

    /// Returns the same logger without posting.
    #[must_use]
    pub fn local(&self) -> Self {
        self.with_destination(Destination::Log)
    }

    /// Returns the same logger without posting. Info and debug messages are written only if the
    /// next more verbose level is enabled. For handlers that are called for thousands of objects.
    #[must_use]
    pub fn terse(&self) -> Self {
        self.with_destination(Destination::Terse)
    }

    /// Returns the logger for the engine's own records about handlers of this kind.
    ///
    /// Successes of timers, daemons, reconcile handlers, event handlers, indices and reviews are frequent
    /// and not posted. Failures of the first three are posted.
    #[must_use]
    pub fn about(&self, kind: HandlerKind) -> Self {
        self.with_destination(match (self.destination, kind) {
            (
                Destination::Events,
                HandlerKind::Daemon(_) | HandlerKind::Timer(_) | HandlerKind::Reconcile(_),
            ) => Destination::Problems,
            (_, HandlerKind::Index) => Destination::Terse,
            (
                _,
                HandlerKind::Event
                | HandlerKind::Child
                | HandlerKind::Convert
                | HandlerKind::Admission(_),
            ) => Destination::Log,
            (destination, _) => destination,
        })
    }

    fn with_destination(&self, destination: Destination) -> Self {
        Self {
            destination,
            ..self.clone()
        }
    }

    /// Returns the activity of the logger; `None` for loggers of objects.
    pub fn activity(&self) -> Option<Activity> {
        self.activity
    }

    /// Returns the object of the logger; an empty reference for activities.
    pub fn reference(&self) -> &Arc<ObjectReference> {
        &self.reference
    }

    /// Returns the poster for explicit events of the object, even for local loggers.
    pub fn poster(&self) -> &Poster {
        &self.poster
    }

    /// Logs a debug message.
    pub fn debug(&self, message: impl Display) {
        self.log(Level::Debug, message);
    }

    /// Logs an info message.
    pub fn info(&self, message: impl Display) {
        self.log(Level::Info, message);
    }

    /// Logs a warning.
    pub fn warning(&self, message: impl Display) {
        self.log(Level::Warning, message);
    }

    /// Logs an error.
    pub fn error(&self, message: impl Display) {
        self.log(Level::Error, message);
    }

    /// Logs an error with details that are not a part of the event.
    pub fn error_with(&self, message: impl Display, details: &str) {
        self.write(Level::Error, &message, Some(details));
    }

    /// Logs the outcome of a handler. The details and the attachment are not a part of the event; a
    /// subscriber reads the attachment by [`attachment`].
    pub(crate) fn log_outcome(
        &self,
        level: Level,
        message: impl Display,
        details: Option<&str>,
        attachment: Option<&Attachment>,
    ) {
        let _attached = AttachmentGuard::new(attachment);
        self.write(level, &message, details);
    }

    /// Logs a message of any level.
    pub fn log(&self, level: Level, message: impl Display) {
        self.write(level, &message, None);
    }

    /// Posts a record that is written elsewhere, if records of its level are posted.
    pub fn post(&self, level: Level, message: impl FnOnce() -> String) {
        if self.is_posted(level) {
            self.poster.record(&self.reference, level, message());
        }
    }

    /// Returns `true` if debug messages are written or posted, to skip their preparation otherwise.
    pub fn is_debug_enabled(&self) -> bool {
        self.is_enabled(Level::Debug)
    }

    /// Returns `true` if records of this level are written or posted.
    pub fn is_enabled(&self, level: Level) -> bool {
        self.is_wanted(level) && (self.is_posted(level) || self.is_written(level))
    }

    fn is_written(&self, level: Level) -> bool {
        macro_rules! enabled {
            ($target:expr) => {
                match level.rounded() {
                    Level::Debug | Level::Other(_) => {
                        tracing::enabled!(target: $target, tracing::Level::DEBUG)
                    }
                    Level::Info => tracing::enabled!(target: $target, tracing::Level::INFO),
                    Level::Warning => tracing::enabled!(target: $target, tracing::Level::WARN),
                    Level::Error => tracing::enabled!(target: $target, tracing::Level::ERROR),
                }
            };
        }
        match self.activity {
            None => enabled!(TARGET),
            Some(Activity::Startup) => enabled!(STARTUP),
            Some(Activity::Cleanup) => enabled!(CLEANUP),
            Some(Activity::Authentication) => enabled!(AUTHENTICATION),
            Some(Activity::Probe) => enabled!(PROBE),
        }
    }

    fn is_posted(&self, level: Level) -> bool {
        let is_event = match self.destination {
            Destination::Events => true,
            Destination::Problems => level >= Level::Warning,
            Destination::Log | Destination::Terse => false,
        };
        is_event && self.poster.takes_records(level)
    }

    fn is_wanted(&self, level: Level) -> bool {
        match level.rounded() {
            _ if self.destination != Destination::Terse => true,
            Level::Debug | Level::Other(_) => {
                tracing::enabled!(target: TARGET, tracing::Level::TRACE)
            }
            Level::Info => tracing::enabled!(target: TARGET, tracing::Level::DEBUG),
            Level::Warning | Level::Error => true,
        }
    }

    fn write(&self, level: Level, message: &dyn Display, details: Option<&str>) {
        if !self.is_wanted(level) {
            return;
        }
        if self.is_posted(level) {
            let message = message.to_string();
            self.trace(level, &message, details);
            self.poster.record(&self.reference, level, message);
        } else {
            self.trace(level, message, details);
        }
    }

    fn trace(&self, level: Level, message: &dyn Display, details: Option<&str>) {
        match self.activity {
            None => self.trace_object(level, message, details),
            Some(activity) => trace_activity(activity, level, message, details),
        }
    }

    fn trace_object(&self, level: Level, message: &dyn Display, details: Option<&str>) {
        // `tracing` fixes the level per call site, so each level has its own.
        macro_rules! record {
            ($level:ident) => {
                tracing::event!(
                    target: TARGET,
                    tracing::Level::$level,
                    k8s.api_version = self.reference.api_version.as_deref(),
                    k8s.kind = self.reference.kind.as_deref(),
                    k8s.name = self.reference.name.as_deref(),
                    k8s.uid = self.reference.uid.as_deref(),
                    k8s.namespace = self.reference.namespace.as_deref(),
                    exc_info = details,
                    "{message}"
                )
            };
        }
        match level.rounded() {
            Level::Debug | Level::Other(_) => record!(DEBUG),
            Level::Info => record!(INFO),
            Level::Warning => record!(WARN),
            Level::Error => record!(ERROR),
        }
    }
}

/// Writes a record of an activity. `tracing` fixes the target per call site, so each activity has
/// its own.
fn trace_activity(activity: Activity, level: Level, message: &dyn Display, details: Option<&str>) {
    macro_rules! record {
        ($target:expr, $level:ident) => {
            tracing::event!(
                target: $target,
                tracing::Level::$level,
                exc_info = details,
                "{message}"
            )
        };
        ($target:expr) => {
            match level.rounded() {
                Level::Debug | Level::Other(_) => record!($target, DEBUG),
                Level::Info => record!($target, INFO),
                Level::Warning => record!($target, WARN),
                Level::Error => record!($target, ERROR),
            }
        };
    }
    match activity {
        Activity::Startup => record!(STARTUP),
        Activity::Cleanup => record!(CLEANUP),
        Activity::Authentication => record!(AUTHENTICATION),
        Activity::Probe => record!(PROBE),
    }
}

thread_local! {
    static ATTACHMENT: RefCell<Option<Attachment>> = const { RefCell::new(None) };
}

/// Returns the exception of a frontend that belongs to the record that is being written. For
/// subscribers of `tracing`: `None` outside of their `on_event`, and for all other records.
///
/// ```
/// use kopf_engine::logger::attachment;
/// use tracing::Subscriber;
/// use tracing_subscriber::layer::{Context, Layer};
///
/// struct Exceptions;
///
/// impl<S: Subscriber> Layer<S> for Exceptions {
///     fn on_event(&self, _event: &tracing::Event<'_>, _context: Context<'_, S>) {
///         if let Some(exception) = attachment() {
///             let _text: Option<&String> = exception.downcast_ref();
///         }
///     }
/// }
/// ```
pub fn attachment() -> Option<Attachment> {
    ATTACHMENT.with_borrow(Clone::clone)
}

/// Makes an attachment available until it is dropped.
struct AttachmentGuard;

impl AttachmentGuard {
    fn new(attachment: Option<&Attachment>) -> Option<Self> {
        let attachment = attachment?.clone();
        ATTACHMENT.set(Some(attachment));
        Some(Self)
    }
}

impl Drop for AttachmentGuard {
    fn drop(&mut self) {
        ATTACHMENT.set(None);
    }
}

impl fmt::Debug for ObjectLogger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.activity {
            None => write!(f, "ObjectLogger({})", self.reference),
            Some(activity) => write!(f, "ObjectLogger({})", activity.as_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use kopf_core::settings::Settings;
    use tracing::Level as TracingLevel;

    use super::*;
    use crate::captured::capture;
    use crate::clock::Clock;

    fn reference() -> Arc<ObjectReference> {
        let mut reference = ObjectReference::default();
        reference.api_version = Some("golden.example/v1".into());
        reference.kind = Some("Thing".into());
        reference.name = Some("obj".into());
        reference.uid = Some("u-1".into());
        Arc::new(reference)
    }

    fn poster() -> Poster {
        Poster::new(Arc::new(Settings::default()), Clock::system())
    }

    #[test]
    fn records_carry_the_identity_of_the_object() {
        let captured = capture(TracingLevel::TRACE);
        let logger = ObjectLogger::new(reference(), None);
        logger.debug("one");
        logger.info(format_args!("{}", "two"));
        logger.warning("three");
        logger.error("four");
        logger.error_with("five", "because of six");
        let records = captured.records();
        let seen: Vec<_> = records
            .iter()
            .map(|record| (record.level, record.message.as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                (TracingLevel::DEBUG, "one"),
                (TracingLevel::INFO, "two"),
                (TracingLevel::WARN, "three"),
                (TracingLevel::ERROR, "four"),
                (TracingLevel::ERROR, "five"),
            ]
        );
        assert!(records.iter().all(|record| record.target == "kopf.objects"));
        let identity = [
            ("k8s.api_version", "golden.example/v1".to_owned()),
            ("k8s.kind", "Thing".to_owned()),
            ("k8s.name", "obj".to_owned()),
            ("k8s.uid", "u-1".to_owned()),
        ];
        assert_eq!(records[0].fields, identity);
        let details = ("exc_info", "because of six".to_owned());
        assert_eq!(records[4].fields, [&identity[..], &[details]].concat());
    }

    #[test]
    fn records_are_posted_unless_they_are_local_or_unimportant() {
        let poster = poster();
        let logger = ObjectLogger::new(reference(), Some(poster.clone()));
        logger.debug("too low");
        logger.local().error("for the log");
        assert!(poster.is_idle());
        logger.info("for all");
        assert!(!poster.is_idle());
    }

    #[test]
    fn routine_records_of_the_engine_are_not_posted() {
        use kopf_core::admission::WebhookType;
        use kopf_core::handler::{Cancellation, Timing};
        let posted = |kind: HandlerKind, level: Level| {
            let logger = ObjectLogger::new(reference(), Some(poster())).about(kind);
            logger.log(level, "Handler 'fn' succeeded.");
            !logger.poster().is_idle()
        };
        assert!(posted(HandlerKind::Create, Level::Info));
        for kind in [
            HandlerKind::Timer(Timing::ONCE),
            HandlerKind::Daemon(Cancellation::NONE),
        ] {
            assert!(!posted(kind, Level::Info), "{kind:?}");
            assert!(posted(kind, Level::Error), "{kind:?}");
        }
        for kind in [
            HandlerKind::Event,
            HandlerKind::Index,
            HandlerKind::Admission(WebhookType::Validating),
        ] {
            assert!(!posted(kind, Level::Info), "{kind:?}");
            assert!(!posted(kind, Level::Error), "{kind:?}");
        }
        let local = ObjectLogger::new(reference(), Some(poster())).local();
        local.about(HandlerKind::Timer(Timing::ONCE)).error("oops");
        assert!(local.poster().is_idle(), "local loggers do not post");
    }

    #[test]
    fn local_loggers_post_explicit_events() {
        let poster = poster();
        let local = ObjectLogger::new(reference(), Some(poster.clone())).local();
        local
            .poster()
            .info(local.reference(), "Reason", String::new());
        assert!(!poster.is_idle());
    }

    #[test]
    fn terse_loggers_write_infos_only_in_verbose_mode() {
        let cases = [
            (TracingLevel::INFO, vec!["warning", "error"]),
            (TracingLevel::DEBUG, vec!["info", "warning", "error"]),
            (
                TracingLevel::TRACE,
                vec!["debug", "info", "warning", "error"],
            ),
        ];
        for (level, expected) in cases {
            let captured = capture(level);
            let logger = ObjectLogger::new(reference(), Some(poster())).terse();
            logger.debug("debug");
            logger.info("info");
            logger.warning("warning");
            logger.error("error");
            let records = captured.records();
            let seen: Vec<_> = records.iter().map(|r| r.message.as_str()).collect();
            assert_eq!(seen, expected);
            assert!(!logger.is_posted(Level::Error));
        }
    }

    #[test]
    fn activities_have_their_own_targets_and_no_events() {
        let captured = capture(TracingLevel::TRACE);
        let activities = [
            Activity::Startup,
            Activity::Cleanup,
            Activity::Authentication,
            Activity::Probe,
        ];
        for activity in activities {
            let logger = ObjectLogger::of_activity(activity);
            assert!(logger.is_debug_enabled());
            logger.error_with("oops", "because");
            logger
                .poster()
                .info(logger.reference(), "Reason", String::new());
            assert!(logger.poster().is_idle());
            let record = captured.records().pop().unwrap();
            assert_eq!(
                record.target,
                format!("kopf.activities.{}", activity.as_str())
            );
            assert_eq!(record.fields, [("exc_info", "because".to_owned())]);
        }
    }

    #[test]
    fn attachments_are_visible_to_subscribers_only_with_their_record() {
        struct Seen<'a>(&'a Cell<Option<u64>>);
        impl Display for Seen<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let seen = attachment().and_then(|value| value.downcast_ref::<u64>().copied());
                self.0.set(seen);
                f.write_str("seen")
            }
        }
        let _captured = capture(TracingLevel::INFO);
        let (logger, seen) = (ObjectLogger::new(reference(), None), Cell::new(None));
        let exception = Attachment::new(5_u64);
        logger.log_outcome(Level::Error, Seen(&seen), None, Some(&exception));
        assert_eq!(seen.get(), Some(5));
        logger.log_outcome(Level::Error, Seen(&seen), None, None);
        assert_eq!(seen.get(), None);
        assert_eq!(attachment(), None);
    }

    #[test]
    fn messages_are_formatted_only_if_enabled() {
        struct Costly<'a>(&'a Cell<u32>);
        impl Display for Costly<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.set(self.0.get() + 1);
                f.write_str("costly")
            }
        }
        let formatted = Cell::new(0);
        let _captured = capture(TracingLevel::INFO);
        let logger = ObjectLogger::new(reference(), Some(poster()));
        assert!(!logger.is_debug_enabled());
        logger.debug(Costly(&formatted));
        assert_eq!(formatted.get(), 0);
        logger.info(Costly(&formatted));
        assert_eq!(
            formatted.get(),
            1,
            "formatted once for both the log and the event"
        );
    }
}
