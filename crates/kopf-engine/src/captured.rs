//! Log records of a test.

use std::fmt;
use std::sync::{Arc, Mutex, Once};

use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// One log record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) level: Level,
    pub(crate) target: String,
    pub(crate) message: String,
    pub(crate) fields: Vec<(&'static str, String)>,
}

/// The records that this thread logs until the value is dropped.
pub(crate) struct Captured {
    records: Arc<Mutex<Vec<Record>>>,
    _guard: DefaultGuard,
}

/// Starts to capture the records of this thread, at this level and above.
pub(crate) fn capture(level: Level) -> Captured {
    // Without a global subscriber, `tracing` may cache a call site as disabled if another thread
    // uses it first.
    static GLOBAL: Once = Once::new();
    GLOBAL.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(Discarding);
        tracing::subscriber::set_global_default(subscriber).expect("no other global subscriber");
    });
    let records = Arc::default();
    let layer = Capturing {
        level,
        records: Arc::clone(&records),
    };
    let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(layer));
    Captured {
        records,
        _guard: guard,
    }
}

impl Captured {
    pub(crate) fn records(&self) -> Vec<Record> {
        self.records.lock().unwrap().clone()
    }

    /// Returns the messages of this level.
    pub(crate) fn messages(&self, level: Level) -> Vec<String> {
        let records = self.records().into_iter();
        let records = records.filter(|record| record.level == level);
        records.map(|record| record.message).collect()
    }
}

/// A subscriber that enables all call sites and drops all records.
struct Discarding;

impl<S: Subscriber> Layer<S> for Discarding {}

struct Capturing {
    level: Level,
    records: Arc<Mutex<Vec<Record>>>,
}

impl<S: Subscriber> Layer<S> for Capturing {
    fn enabled(&self, metadata: &tracing::Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= self.level
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut record = Record {
            level: *event.metadata().level(),
            target: event.metadata().target().to_owned(),
            message: String::new(),
            fields: Vec::new(),
        };
        event.record(&mut record);
        self.records.lock().unwrap().push(record);
    }
}

impl Visit for Record {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.message = format!("{value:?}");
        } else {
            self.fields.push((field.name(), format!("{value:?}")));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.push((field.name(), value.to_owned()));
    }
}
