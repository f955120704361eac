//! A log record from a `tracing` event.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use kopf_core::failure::describe;
use serde_json::Value;
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// The parts of an event that are written.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) level: Level,
    /// The name of the logger.
    pub(super) target: &'static str,
    pub(super) message: String,
    /// The error with its causes; can have several lines.
    pub(super) exc_info: Option<String>,
    pub(super) object: Object,
    /// All other fields, in their order.
    pub(super) extras: Vec<(&'static str, Value)>,
    details: Details,
}

/// The fields of the object that a format writes. Others are not copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Details {
    /// The namespace and the name.
    Name,
    /// All of them.
    All,
}

/// The object of a record, if any.
#[derive(Debug, Default)]
pub(super) struct Object {
    pub(super) api_version: Option<String>,
    pub(super) kind: Option<String>,
    pub(super) name: Option<String>,
    pub(super) uid: Option<String>,
    pub(super) namespace: Option<String>,
}

impl Object {
    pub(super) fn is_known(&self) -> bool {
        self.name.is_some() || self.kind.is_some() || self.uid.is_some()
    }

    /// Returns the object of the handler that logs the record by `tracing`, if any.
    fn of_current_handler() -> Self {
        let Some(call) = kopf_engine::current() else {
            return Self::default();
        };
        let reference = call.logger.reference();
        let copied = |text: &Option<Arc<str>>| text.as_deref().map(str::to_owned);
        Self {
            api_version: copied(&reference.api_version),
            kind: copied(&reference.kind),
            name: copied(&reference.name),
            uid: copied(&reference.uid),
            namespace: copied(&reference.namespace),
        }
    }
}

/// The prefix of messages about an object.
impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.namespace, &self.name) {
            (_, None) => Ok(()),
            (None, Some(name)) => {
                f.write_str("[")?;
                f.write_str(name)?;
                f.write_str("] ")
            }
            (Some(namespace), Some(name)) => {
                f.write_str("[")?;
                f.write_str(namespace)?;
                f.write_str("/")?;
                f.write_str(name)?;
                f.write_str("] ")
            }
        }
    }
}

impl Record {
    pub(super) fn of(event: &Event<'_>, details: Details) -> Self {
        let metadata = event.metadata();
        let mut record = Self {
            level: *metadata.level(),
            target: metadata.target(),
            message: String::new(),
            exc_info: None,
            object: Object::default(),
            extras: Vec::new(),
            details,
        };
        event.record(&mut record);
        if !record.object.is_known() {
            record.object = Object::of_current_handler();
        }
        record
    }

    fn add(&mut self, field: &Field, value: Value) {
        let Self { object, .. } = self;
        let place = match field.name() {
            "message" => {
                self.message = text(value).unwrap_or_default();
                return;
            }
            "exc_info" => &mut self.exc_info,
            "k8s.api_version" => &mut object.api_version,
            "k8s.kind" => &mut object.kind,
            "k8s.name" => &mut object.name,
            "k8s.uid" => &mut object.uid,
            "k8s.namespace" => &mut object.namespace,
            name => {
                self.extras.push((name, value));
                return;
            }
        };
        *place = text(value).filter(|text| !text.is_empty());
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text),
        value => Some(value.to_string()),
    }
}

impl Visit for Record {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.add(field, Value::String(format!("{value:?}")));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let is_needed = self.details == Details::All
            || !matches!(field.name(), "k8s.api_version" | "k8s.kind" | "k8s.uid");
        if !is_needed {
            return;
        }
        self.add(field, Value::from(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, Value::from(value));
    }

    /// Records an error with its causes.
    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.add(field, Value::String(describe(value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_prefixes_equal_the_originals() {
        let mut object = Object::default();
        assert_eq!(object.to_string(), "");
        assert!(!object.is_known());
        object.name = Some("obj".to_owned());
        assert_eq!(object.to_string(), "[obj] ");
        object.namespace = Some("ns".to_owned());
        assert_eq!(object.to_string(), "[ns/obj] ");
        assert!(object.is_known());
    }
}
