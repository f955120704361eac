//! The API server of the model: one object, its versions, and the events on their way.

use std::collections::VecDeque;
use std::sync::Arc;

use kopf_core::cause::EventType;
use kopf_core::object::FinalizerChange;
use serde_json::{Value, json};

/// The finalizer of the operator.
pub(crate) const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

/// An event on its way to the operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Event {
    pub(crate) event: EventType,
    pub(crate) body: Arc<Value>,
}

/// The effect of the server on the writes of the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Hostility {
    /// Nothing.
    #[default]
    None,
    /// Finalizers are removed from every write, as by a mutating webhook.
    StripsFinalizers,
    /// The annotations of the operator are removed from every write.
    StripsAnnotations,
    /// Writes are accepted, but change nothing.
    IgnoresWrites,
}

/// One object on the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Server {
    pub(crate) object: Option<Arc<Value>>,
    version: u64,
    pub(crate) events: VecDeque<Event>,
    pub(crate) hostility: Hostility,
}

/// A request of the operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    pub(crate) merge: Value,
    pub(crate) finalizer: Option<FinalizerChange>,
    /// The object after the transformations.
    pub(crate) transformed: Option<Value>,
    /// The version that transformations and the change of the finalizer are guarded by, unless the
    /// merge goes first.
    pub(crate) version: String,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    Accepted(Option<Arc<Value>>),
    Conflict(Option<Arc<Value>>),
    NotFound,
}

impl Server {
    pub(crate) fn create(&mut self) {
        let object = json!({
            "apiVersion": "v1", "kind": "Thing",
            "metadata": {"name": "x", "uid": "u", "generation": 1, "annotations": {}},
            "spec": {"field": 1},
        });
        self.store(object, EventType::Added);
    }

    /// Changes the spec, as a user.
    pub(crate) fn edit(&mut self, field: i64) {
        if let Some(object) = &self.object {
            let mut object = Value::clone(object);
            object["spec"]["field"] = json!(field);
            let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
            object["metadata"]["generation"] = json!(generation + 1);
            self.store(object, EventType::Modified);
        }
    }

    /// Deletes the object, as a user.
    pub(crate) fn delete(&mut self) {
        if let Some(object) = &self.object {
            let mut object = Value::clone(object);
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            self.store(object, EventType::Modified);
        }
    }

    pub(crate) fn is_deleting(&self) -> bool {
        self.object
            .as_ref()
            .is_some_and(|object| is_deleting(object))
    }

    /// Applies a request.
    pub(crate) fn apply(&mut self, request: &Request) -> Outcome {
        let Some(object) = self.object.clone() else {
            return Outcome::NotFound;
        };
        let mut response = None;
        let has_merge = request.merge != json!({});
        if has_merge {
            let mut changed = Value::clone(&object);
            json_patch::merge(&mut changed, &request.merge);
            self.write(changed);
            let Some(object) = self.object.clone() else {
                return Outcome::NotFound;
            };
            response = Some(object);
        }
        if let Some(transformed) = request.transformed.as_ref().filter(|_| !has_merge) {
            if object["metadata"]["resourceVersion"].as_str() != Some(&request.version) {
                return Outcome::Conflict(None);
            }
            response = Some(self.write(transformed.clone()));
        }
        let Some(change) = request.finalizer else {
            return Outcome::Accepted(response);
        };
        let current = Value::clone(response.as_ref().unwrap_or(&object));
        let version = current["metadata"]["resourceVersion"].as_str();
        if response.is_none() && version != Some(request.version.as_str()) {
            return Outcome::Conflict(None);
        }
        let mut changed = current;
        if change == FinalizerChange::Add {
            changed["metadata"]["finalizers"] = json!([FINALIZER]);
        } else if let Some(metadata) = changed["metadata"].as_object_mut() {
            metadata.remove("finalizers");
        }
        let last = self.write(changed);
        Outcome::Accepted(Some(last))
    }

    /// Stores what the operator has written, and returns the response.
    fn write(&mut self, mut changed: Value) -> Arc<Value> {
        let before = self.object.clone().unwrap_or_default();
        match self.hostility {
            Hostility::None => {}
            Hostility::StripsFinalizers => {
                changed["metadata"]["finalizers"] = before["metadata"]["finalizers"].clone();
                // Something else changes with every write, such as managed fields.
                changed["metadata"]["touched"] = json!(self.version);
            }
            Hostility::StripsAnnotations => {
                changed["metadata"]["annotations"] = json!({});
                changed["metadata"]["touched"] = json!(self.version);
            }
            Hostility::IgnoresWrites => changed = Value::clone(&before),
        }
        if changed == *before {
            return before;
        }
        self.store(changed, EventType::Modified)
    }

    fn store(&mut self, mut object: Value, event: EventType) -> Arc<Value> {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let object = Arc::new(object);
        let is_gone = is_deleting(&object) && !has_finalizer(&object);
        let event = if is_gone { EventType::Deleted } else { event };
        self.events.push_back(Event {
            event,
            body: Arc::clone(&object),
        });
        self.object = (!is_gone).then(|| Arc::clone(&object));
        object
    }
}

pub(crate) fn is_deleting(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

pub(crate) fn has_finalizer(object: &Value) -> bool {
    object["metadata"]["finalizers"]
        .as_array()
        .is_some_and(|finalizers| !finalizers.is_empty())
}
