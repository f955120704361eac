//! What the operator has logged, as a user would read it.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use kopf_core::sync::Mutex;
use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) level: Level,
    pub(crate) target: String,
    /// The name of the object it is about; empty for others.
    pub(crate) object: String,
    pub(crate) message: String,
    /// The chain of an error.
    pub(crate) details: String,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:5} {} ", self.level, self.target)?;
        if !self.object.is_empty() {
            write!(f, "[{}] ", self.object)?;
        }
        f.write_str(&self.message)
    }
}

/// All records of this thread, from the capture on. Clones share them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Record>>>);

impl Log {
    /// Begins to keep what is logged in this thread, until the guard is dropped.
    pub(crate) fn capture() -> (Self, DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::registry().with(log.clone());
        (log, tracing::subscriber::set_default(subscriber))
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.0.lock().clone()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }

    /// The messages about an object, in order.
    pub(crate) fn of(&self, object: &str) -> Vec<Record> {
        let mut records = self.records();
        records.retain(|record| record.target == "kopf.objects" && record.object == object);
        records
    }

    /// Whether any message about the object contains this.
    pub(crate) fn has(&self, object: &str, text: &str) -> bool {
        self.of(object)
            .iter()
            .any(|record| record.message.contains(text))
    }

    /// How many messages about the object are exactly this.
    pub(crate) fn count(&self, object: &str, message: &str) -> usize {
        let records = self.of(object);
        records.iter().filter(|r| r.message == message).count()
    }
}

impl<S: Subscriber> Layer<S> for Log {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        // Everybody else's records are of no interest here.
        if !metadata.target().starts_with("kopf") {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let record = Record {
            level: *metadata.level(),
            target: metadata.target().to_owned(),
            object: fields.object,
            message: fields.message,
            details: fields.details,
        };
        self.0.lock().push(record);
    }
}

#[derive(Default)]
struct Fields {
    object: String,
    message: String,
    details: String,
}

impl Fields {
    fn place(&mut self, field: &Field) -> Option<&mut String> {
        match field.name() {
            "message" => Some(&mut self.message),
            "k8s.name" => Some(&mut self.object),
            "exc_info" => Some(&mut self.details),
            _ => None,
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        if let Some(place) = self.place(field) {
            place.push_str(value);
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if let Some(place) = self.place(field) {
            let _ = write!(place, "{value:?}");
        }
    }
}
