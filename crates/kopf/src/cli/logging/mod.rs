//! The log of an operator's process: filtering and formatting of records.
//!
//! Records of `tracing` are written to stderr, one write each. Records about objects have the
//! target `kopf.objects` and the fields `k8s.*` ([`record`]). Records never contain secrets.

mod directives;
mod exporting;
mod json;
mod levels;
mod names;
mod record;
mod text;

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt;
use std::panic::PanicHookInfo;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer as _, Registry};

pub(super) use self::directives::Directives;
pub(super) use self::exporting::Exporting;
pub(super) use self::levels::Verbosity;
use self::record::{Details, Record};
use self::text::Heading;
use super::args::LogFormat;
use super::program::BoxedLayer;

/// Options of the log.
#[derive(Debug, Clone)]
pub(super) struct Options {
    pub(super) verbosity: Verbosity,
    /// Levels by logger.
    pub(super) directives: Directives,
    pub(super) format: LogFormat,
    /// The key of the object in JSON.
    pub(super) refkey: String,
    /// Messages start with their object.
    pub(super) prefix: bool,
}

/// Installs the log to stderr, unless the program has already installed a subscriber. If traces are
/// configured, they are exported until the returned value is dropped.
pub(super) fn install(options: Options, layers: Vec<BoxedLayer>) -> Exporting {
    let exporting = Exporting::by_env();
    let format = Format {
        options,
        heading: Heading::new(TimeZone::system()),
        now: Timestamp::now,
    };
    let layers = layers.into_iter().chain(exporting.layer()).collect();
    // The only possible error is an existing subscriber.
    let subscriber = subscriber(format, std::io::stderr, layers);
    if tracing::subscriber::set_global_default(subscriber).is_ok() {
        std::panic::set_hook(Box::new(log_panic));
    }
    exporting.report();
    exporting
}

/// Logs the location of a panic in the format of the log. The panic itself is caught elsewhere.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("without a message");
    let place = panic.location().map(ToString::to_string);
    let place = place.unwrap_or_else(|| "an unknown place".to_owned());
    let backtrace = Backtrace::capture();
    let details = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    let Some(call) = kopf_engine::current() else {
        tracing::error!(exc_info = details, "Panicked at {place}: {text}");
        return;
    };
    let message = format_args!("Handler '{}' has panicked at {place}: {text}", call.id);
    match details {
        Some(details) => call.logger.local().error_with(message, &details),
        None => call.logger.local().error(message),
    }
}

fn subscriber<W>(
    format: Format,
    writer: W,
    mut layers: Vec<BoxedLayer>,
) -> impl Subscriber + for<'span> LookupSpan<'span> + Send + Sync
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let Options {
        verbosity,
        directives,
        ..
    } = &format.options;
    let filter = levels::filter(*verbosity, directives.clone());
    let layer = tracing_subscriber::fmt::layer()
        .event_format(format)
        .with_writer(writer)
        // Internal errors would be reported to stderr, which panics if it is closed.
        .log_internal_errors(false);
    layers.push(Box::new(layer.with_filter(filter)));
    layers.push(Box::new(crate::events_layer()));
    // In one list: beside an absent layer, `tracing::enabled!` is true for all levels, and messages would
    // be made for nothing.
    Registry::default().with(layers)
}

/// Formats events as lines.
struct Format {
    options: Options,
    heading: Heading,
    now: fn() -> Timestamp,
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Format")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl<S, N> FormatEvent<S, N> for Format
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let now = (self.now)();
        let Options {
            format,
            refkey,
            prefix,
            ..
        } = &self.options;
        let details = match format {
            LogFormat::Plain | LogFormat::Full => Details::Name,
            LogFormat::Json => Details::All,
        };
        let record = Record::of(event, details);
        match format {
            LogFormat::Plain => text::message(&mut writer, &record, *prefix)?,
            LogFormat::Full => {
                self.heading.write(&mut writer, &record, now)?;
                text::message(&mut writer, &record, *prefix)?;
            }
            LogFormat::Json => json::line(&mut writer, record, now, refkey, *prefix)?,
        }
        writer.write_char('\n')
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex, PoisonError};

    use super::*;

    /// The output, one item per write.
    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<String>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            self.0.lock().unwrap().push(text);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn log(
        format: LogFormat,
        verbosity: Verbosity,
        prefix: bool,
        action: impl FnOnce(),
    ) -> Vec<String> {
        log_by("", format, verbosity, prefix, action)
    }

    fn log_by(
        directives: &str,
        format: LogFormat,
        verbosity: Verbosity,
        prefix: bool,
        action: impl FnOnce(),
    ) -> Vec<String> {
        let options = Options {
            verbosity,
            directives: directives.parse().unwrap(),
            format,
            refkey: "object".to_owned(),
            prefix,
        };
        log_with(Vec::new(), options, action)
    }

    fn log_with(layers: Vec<BoxedLayer>, options: Options, action: impl FnOnce()) -> Vec<String> {
        // What is enabled is cached for the whole process, so subscribers must not overlap.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let written = Written::default();
        let format = Format {
            options,
            heading: Heading::new(TimeZone::fixed(jiff::tz::offset(1))),
            now: || "2026-11-15T00:38:15.408901Z".parse().unwrap(),
        };
        let writer = written.clone();
        let subscriber = subscriber(format, move || writer.clone(), layers);
        tracing::subscriber::with_default(subscriber, action);
        let lines = written.0.lock().unwrap();
        lines.clone()
    }

    /// Logs about an object like the engine.
    fn about_an_object(namespace: Option<&str>, details: Option<&str>) {
        tracing::event!(
            target: "kopf.objects",
            tracing::Level::DEBUG,
            k8s.api_version = Some("kopf.dev/v1"),
            k8s.kind = Some("KopfExample"),
            k8s.name = Some("obj"),
            k8s.uid = Some("1-2-3"),
            k8s.namespace = namespace,
            exc_info = details,
            "{}",
            "Handler 'make' is invoked."
        );
    }

    #[test]
    fn engine_knows_which_levels_are_written() {
        let is_enabled = |verbosity| {
            let mut is_enabled = [false; 3];
            log(LogFormat::Full, verbosity, true, || {
                is_enabled = [
                    tracing::enabled!(target: "kopf.objects", tracing::Level::TRACE),
                    tracing::enabled!(target: "kopf.objects", tracing::Level::DEBUG),
                    tracing::enabled!(target: "kopf.objects", tracing::Level::INFO),
                ];
            });
            is_enabled
        };
        assert_eq!(is_enabled(Verbosity::Normal), [false, false, true]);
        assert_eq!(is_enabled(Verbosity::Verbose), [false, true, true]);
        assert_eq!(is_enabled(Verbosity::Quiet), [false, false, false]);
    }

    #[test]
    fn full_lines_have_time_logger_level_and_object() {
        let lines = log(LogFormat::Full, Verbosity::Verbose, true, || {
            about_an_object(Some("ns"), None);
            about_an_object(None, None);
            tracing::warn!(target: "kopf.activities.authentication", "Late.");
        });
        let expected = [
            "[2026-11-15 01:38:15,408] kopf::objects        [DEBUG   ] [ns/obj] Handler 'make' is invoked.\n",
            "[2026-11-15 01:38:15,408] kopf::objects        [DEBUG   ] [obj] Handler 'make' is invoked.\n",
            "[2026-11-15 01:38:15,408] kopf::activities::authentication [WARNING ] Late.\n",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn prefixes_can_be_omitted() {
        let lines = log(LogFormat::Full, Verbosity::Verbose, false, || {
            about_an_object(Some("ns"), None);
        });
        let expected = "[2026-11-15 01:38:15,408] kopf::objects        [DEBUG   ] Handler 'make' is invoked.\n";
        assert_eq!(lines, [expected]);
    }

    #[test]
    fn plain_lines_are_messages_with_their_fields_and_errors() {
        let lines = log(LogFormat::Plain, Verbosity::Verbose, true, || {
            about_an_object(Some("ns"), Some("not yet\ncaused by: x"));
            tracing::info!(target: "my_operator", pod = "a b", count = 5, "Created.");
            tracing::info!(target: "my_operator", pod = "p");
            tracing::error!(target: "my_operator", "two\nlines, \u{1b}[31mno colours\u{7}");
        });
        let expected = [
            "[ns/obj] Handler 'make' is invoked.\n    not yet\n    caused by: x\n",
            "Created. pod=\"a b\" count=5\n",
            "pod=p\n",
            "two\\nlines, \\x1b[31mno colours\\x07\n",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn json_lines_equal_the_originals() {
        let lines = log(LogFormat::Json, Verbosity::Verbose, false, || {
            about_an_object(Some("ns"), None);
            about_an_object(None, Some("not yet"));
            let error = io::Error::other("no");
            tracing::warn!(
                target: "my_operator",
                pod = "p", n = 5, ok = true, error = &error as &dyn std::error::Error,
                severity = "mine",
                "Größe \"x\""
            );
        });
        let expected = [
            r#"{"message": "Handler 'make' is invoked.", "timestamp": "2026-11-15T00:38:15.408901+00:00", "object": {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "obj", "uid": "1-2-3", "namespace": "ns"}, "severity": "debug"}"#,
            r#"{"message": "Handler 'make' is invoked.", "exc_info": "not yet", "timestamp": "2026-11-15T00:38:15.408901+00:00", "object": {"apiVersion": "kopf.dev/v1", "kind": "KopfExample", "name": "obj", "uid": "1-2-3", "namespace": null}, "severity": "debug"}"#,
            r#"{"message": "Gr\u00f6\u00dfe \"x\"", "pod": "p", "n": 5, "ok": true, "error": "no", "severity_": "mine", "timestamp": "2026-11-15T00:38:15.408901+00:00", "severity": "warn"}"#,
        ];
        assert_eq!(lines.len(), 3);
        for (line, expected) in lines.iter().zip(expected) {
            assert_eq!(line.strip_suffix('\n').unwrap(), expected);
        }
    }

    #[test]
    fn json_messages_can_have_prefixes() {
        let lines = log(LogFormat::Json, Verbosity::Verbose, true, || {
            about_an_object(Some("ns"), None);
        });
        assert!(
            lines[0].starts_with(r#"{"message": "[ns/obj] Handler "#),
            "{lines:?}"
        );
    }

    /// A layer of a program that stores the targets of records.
    struct Targets(Arc<Mutex<Vec<String>>>);

    impl<S: Subscriber> tracing_subscriber::Layer<S> for Targets {
        fn on_event(&self, event: &Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
            let target = event.metadata().target().to_owned();
            self.0.lock().unwrap().push(target);
        }
    }

    #[test]
    fn layers_of_programs_have_their_own_filters() {
        let all = Arc::new(Mutex::new(Vec::new()));
        let warnings = Arc::new(Mutex::new(Vec::new()));
        let filtered = Targets(Arc::clone(&warnings));
        let layers: Vec<BoxedLayer> = vec![
            Box::new(Targets(Arc::clone(&all))),
            Box::new(filtered.with_filter(tracing::level_filters::LevelFilter::WARN)),
        ];
        let options = Options {
            verbosity: Verbosity::Normal,
            directives: "".parse().unwrap(),
            format: LogFormat::Plain,
            refkey: "object".to_owned(),
            prefix: true,
        };
        let lines = log_with(layers, options, || {
            tracing::debug!(target: "my_operator", "debugging");
            tracing::info!(target: "my_operator", "working");
            tracing::warn!(target: "hyper", "warning");
        });
        assert_eq!(lines, ["working\n", "warning\n"]);
        assert_eq!(
            *all.lock().unwrap(),
            ["my_operator", "my_operator", "hyper"]
        );
        assert_eq!(*warnings.lock().unwrap(), ["hyper"]);
    }

    #[test]
    fn newlines_do_not_forge_records() {
        let forged = "hello\n[2026-11-15 01:38:15,408] kopf::objects [INFO] [ns/obj] Forged.\r\nx";
        for format in [LogFormat::Plain, LogFormat::Full, LogFormat::Json] {
            let lines = log(format, Verbosity::Normal, true, || {
                tracing::info!(target: "my_operator", exc_info = forged, text = forged, "{forged}");
            });
            let written: Vec<_> = lines[0].trim_end().lines().collect();
            let (first, details) = written.split_first().unwrap();
            assert!(first.contains("hello\\n[2026"), "{first}");
            for line in details {
                assert!(line.starts_with("    "), "{line}");
            }
        }
    }

    #[test]
    fn directives_override_the_verbosity() {
        let record = || {
            tracing::trace!(target: "my_operator::pods", "traced");
            tracing::debug!(target: "my_operator", "debugged");
            tracing::info!(target: "my_operator", "mine");
            tracing::debug!(target: "kopf_client::watching::observer", "watching");
            tracing::debug!(target: "kopf.objects", "object");
            tracing::trace!(target: "hyper::client", "library");
        };
        let lines = |directives: &str, verbosity| {
            log_by(directives, LogFormat::Plain, verbosity, true, record).concat()
        };
        let normal = Verbosity::Normal;
        assert_eq!(lines("", normal), "mine\n");
        assert_eq!(lines("my_operator=debug", normal), "debugged\nmine\n");
        assert_eq!(lines("my_operator::pods", normal), "traced\nmine\n");
        assert_eq!(lines("kopf::watching=debug,warn", normal), "watching\n");
        assert_eq!(lines("kopf=debug", normal), "mine\nwatching\nobject\n");
        assert_eq!(lines("off", Verbosity::Verbose), "");
        assert_eq!(
            lines("trace", Verbosity::Quiet),
            "traced\ndebugged\nmine\nwatching\nobject\n",
            "traces of libraries are written only if they are named"
        );
        assert_eq!(lines("hyper,off", normal), "library\n");
    }

    #[test]
    fn levels_and_libraries_are_filtered() {
        let record = || {
            tracing::debug!(target: "kopf.objects", "kopf");
            tracing::debug!(target: "my_operator::pods", "mine");
            tracing::info!(target: "my_operator", "mine too");
            tracing::debug!(target: "hyper_util::client", "library");
            tracing::trace!(target: "kube_client::client", "never");
            tracing::warn!(target: "kube_client::client", "warned");
        };
        let lines = |verbosity| log(LogFormat::Plain, verbosity, true, record).concat();
        assert_eq!(lines(Verbosity::Quiet), "warned\n");
        assert_eq!(lines(Verbosity::Normal), "mine too\nwarned\n");
        assert_eq!(lines(Verbosity::Verbose), "kopf\nmine\nmine too\nwarned\n");
        assert_eq!(
            lines(Verbosity::Debug),
            "kopf\nmine\nmine too\nlibrary\nwarned\n"
        );
    }
}
