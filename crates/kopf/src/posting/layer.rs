//! Records of `tracing` as events of the handled object.

use std::fmt::{self, Write as _};

use kopf_core::wording::Level;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Returns a layer that posts the records of `tracing` inside of handlers as Kubernetes events of
/// their objects, like those of [`Logger`](crate::Logger).
///
/// [`kopf::main`](crate::main()) installs it. Programs with their own subscriber add it:
///
/// ```
/// use kopf::tracing_subscriber::prelude::*;
/// use kopf::tracing_subscriber::{fmt, registry};
///
/// let subscriber = registry().with(fmt::layer()).with(kopf::events_layer());
/// ```
///
/// Records of the framework and of its libraries are not posted. The settings `posting.loggers` and
/// `posting.level` apply. Records of tasks and threads that a handler starts do not belong to it.
pub fn events_layer<S>() -> impl Layer<S> + Send + Sync
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    // It depends only on metadata, so that its result is cached per call site.
    let filter = filter_fn(|metadata: &Metadata<'_>| {
        metadata.is_event()
            && *metadata.level() <= tracing::Level::DEBUG
            && is_of_user(metadata.target())
    });
    Posting.with_filter(filter.with_max_level_hint(LevelFilter::DEBUG))
}

/// Returns `true` unless the target belongs to the framework or its libraries.
fn is_of_user(target: &str) -> bool {
    let root = target.split("::").next().unwrap_or(target);
    let root = root.split('.').next().unwrap_or(root);
    let is_ours = root == "kopf" || OWN.contains(&root);
    !is_ours && !is_library(target)
}

/// The crates of the framework, apart from `kopf`.
const OWN: &[&str] = &[
    "kopf_client",
    "kopf_core",
    "kopf_engine",
    "kopf_inspect",
    "kopf_sandbox",
    "kopf_shipping",
    "kopf_testing",
    "kopf_trace",
    "kopf_webhooks",
];

/// Libraries of the framework, sorted. Their INFO and DEBUG messages are noise in the log of an
/// operator.
const LIBRARIES: &[&str] = &[
    "h2",
    "hyper",
    "hyper_rustls",
    "hyper_timeout",
    "hyper_util",
    "jiff",
    "kopf_sandbox",
    "kube",
    "kube_client",
    "kube_core",
    "mio",
    "rustls",
    "tokio",
    "tokio_rustls",
    "tokio_util",
    "tower",
    "tower_http",
    "want",
];

/// Returns `true` for targets of libraries of the framework.
pub(crate) fn is_library(target: &str) -> bool {
    let root = target.split("::").next().unwrap_or(target);
    LIBRARIES.binary_search(&root).is_ok()
}

struct Posting;

impl<S: Subscriber> Layer<S> for Posting {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let Some(call) = kopf_engine::current() else {
            return;
        };
        let level = match *event.metadata().level() {
            tracing::Level::ERROR => Level::Error,
            tracing::Level::WARN => Level::Warning,
            tracing::Level::INFO => Level::Info,
            _ => Level::Debug,
        };
        call.logger.post(level, || {
            let mut text = Text::default();
            event.record(&mut text);
            text.whole()
        });
    }
}

/// The message, followed by the other fields: `Created. pod="web"`.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Text {
    fn whole(self) -> String {
        match (self.message.as_str(), self.fields.trim_start()) {
            (_, "") => self.message,
            ("", fields) => fields.to_owned(),
            (message, fields) => format!("{message} {fields}"),
        }
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }

    /// Records an error with its causes.
    fn record_error(&mut self, field: &Field, error: &(dyn std::error::Error + 'static)) {
        self.record_debug(field, &format_args!("{}", crate::chain::line(error)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_sorted() {
        assert!(LIBRARIES.is_sorted());
    }

    #[test]
    fn libraries_are_matched_by_whole_names() {
        assert!(is_library("hyper"));
        assert!(is_library("hyper::client::conn"));
        assert!(!is_library("hyperspace"));
        assert!(!is_library("kopf.objects"));
        assert!(!is_library("kopf_engine::operator"));
    }

    #[test]
    fn records_of_the_framework_and_its_libraries_are_not_posted() {
        for target in ["my_operator", "my_operator::pods", "kopf_examples", "sqlx"] {
            assert!(is_of_user(target), "{target}");
        }
        for target in [
            "kopf",
            "kopf.objects",
            "kopf.activities.startup",
            "kopf::cli",
            "kopf_engine::posting",
            "kube_client::client",
        ] {
            assert!(!is_of_user(target), "{target}");
        }
    }
}
