//! The operator's log in the demo: the main steps, without time and level.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::{Registry, filter};

use kopf_inspect::{Screen, Style};

/// Prefixes of debug messages that are shown.
const SHOWN: [&str; 3] = ["Handler ", "Adding the finalizer", "Removing the finalizer"];

/// Sets the log format of this process.
pub(super) fn show() {
    let layer = Log {
        terminal: Screen::detect(),
    };
    let filter = filter::filter_fn(|metadata| {
        let limit = match metadata.target() {
            "kopf.objects" => Level::DEBUG,
            _ => Level::WARN,
        };
        *metadata.level() <= limit
    });
    // Fails only if a subscriber is already set. This command sets no other.
    let subscriber = Registry::default().with(layer.with_filter(filter));
    let _ = tracing::subscriber::set_global_default(subscriber);
}

struct Log {
    terminal: Screen,
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut record = Record::default();
        event.record(&mut record);
        let level = *event.metadata().level();
        if level == Level::DEBUG && !SHOWN.iter().any(|start| record.message.starts_with(start)) {
            return;
        }
        let style = match level {
            Level::ERROR | Level::WARN => Style::Warning,
            Level::DEBUG => Style::Faint,
            _ => Style::Plain,
        };
        let (object, message) = (record.object(), &record.message);
        self.terminal.line(&[
            (Style::Faint, "   | "),
            (Style::Faint, &object),
            (style, message),
        ]);
    }
}

#[derive(Debug, Default)]
struct Record {
    namespace: String,
    name: String,
    message: String,
}

impl Record {
    fn object(&self) -> String {
        let Self {
            namespace, name, ..
        } = self;
        match (namespace.is_empty(), name.is_empty()) {
            (_, true) => String::new(),
            (true, false) => format!("[{name}] "),
            (false, false) => format!("[{namespace}/{name}] "),
        }
    }
}

impl Visit for Record {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "k8s.namespace" => value.clone_into(&mut self.namespace),
            "k8s.name" => value.clone_into(&mut self.name),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_prefixed_with_the_object() {
        let mut record = Record::default();
        assert_eq!(record.object(), "");
        "a".clone_into(&mut record.name);
        assert_eq!(record.object(), "[a] ");
        "ns".clone_into(&mut record.namespace);
        assert_eq!(record.object(), "[ns/a] ");
    }
}
