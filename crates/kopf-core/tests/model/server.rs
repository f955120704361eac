//! The API server of the model: one object, its versions, and the events on their way.

use std::collections::VecDeque;
use std::sync::Arc;

use kopf_core::cause::EventType;
use kopf_core::finalizer::{Removal, add_fn};
use kopf_core::object::FinalizerChange;
use serde_json::{Value, json};

/// The finalizer of the operator.
pub(crate) const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

/// The finalizer of another client.
const OTHER: &str = "example.com/other";

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

/// A write of the operator: a merge patch, then a JSON patch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    pub(crate) merge: Value,
    pub(crate) finalizer: Option<FinalizerChange>,
    /// The records to be erased with the finalizer.
    pub(crate) erasure: Value,
    /// The object after the transformations.
    pub(crate) transformed: Option<Value>,
    /// The version that the JSON patch is made for, unless the merge patch goes first.
    pub(crate) base: Arc<Value>,
    /// The response to the merge patch.
    pub(crate) merged: Option<Arc<Value>>,
    /// The merge patch to be sent again if the response to it is lost.
    pub(crate) last: Value,
    /// A mutation: the removal of the finalizer is guarded by the version of the object.
    pub(crate) is_guarded: bool,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Outcome {
    Accepted(Option<Arc<Value>>),
    Conflict(Option<Arc<Value>>),
    NotFound,
}

impl Server {
    pub(crate) fn create(&mut self, has_other_finalizer: bool) {
        let mut object = json!({
            "apiVersion": "v1", "kind": "Thing",
            "metadata": {"name": "x", "uid": "u", "generation": 1, "annotations": {}},
            "spec": {"field": 1},
        });
        if has_other_finalizer {
            object["metadata"]["finalizers"] = json!([OTHER]);
        }
        self.store(object, EventType::Added);
    }

    /// Changes the status, as another client.
    pub(crate) fn beat(&mut self) {
        if let Some(object) = &self.object {
            let mut object = Value::clone(object);
            object["status"]["beat"] = json!(self.version);
            self.store(object, EventType::Modified);
        }
    }

    /// Returns `true` if the finalizer of another client is on the object.
    pub(crate) fn has_other_finalizer(&self) -> bool {
        let object = self.object.as_deref();
        object.is_some_and(|object| has(object, OTHER))
    }

    /// Removes the finalizer of another client.
    pub(crate) fn remove_other_finalizer(&mut self) {
        if let Some(object) = &self.object {
            let mut object = Value::clone(object);
            if let Some(list) = object["metadata"]["finalizers"].as_array_mut() {
                list.retain(|finalizer| finalizer != OTHER);
            }
            self.store(object, EventType::Modified);
        }
    }

    /// Records outcomes by a merge patch of the operator; returns the response.
    pub(crate) fn merge(&mut self, merge: &Value) -> Option<Arc<Value>> {
        let mut changed = Value::clone(self.object.as_ref()?);
        json_patch::merge(&mut changed, merge);
        Some(self.write(changed))
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

    /// Applies the next part of a request; returns the result after the last one.
    pub(crate) fn apply(&mut self, request: &mut Request) -> Option<Outcome> {
        let Some(object) = self.object.clone() else {
            return Some(Outcome::NotFound);
        };
        if request.merge != json!({}) {
            let merge = std::mem::replace(&mut request.merge, json!({}));
            request.merged = self.merge(&merge);
            request.last = merge;
            request.transformed = None;
            let accepted = || Outcome::Accepted(request.merged.clone());
            return request.finalizer.is_none().then(accepted);
        }
        request.last = json!({});
        let mut response = request.merged.clone();
        let is_current = |base: &Value| {
            base["metadata"]["resourceVersion"] == object["metadata"]["resourceVersion"]
        };
        if let Some(transformed) = &request.transformed {
            if !is_current(&request.base) {
                return Some(Outcome::Conflict(None));
            }
            response = Some(self.write(transformed.clone()));
        }
        let base = response.as_ref().unwrap_or(&request.base);
        let changed = match request.finalizer {
            None => return Some(Outcome::Accepted(response)),
            Some(FinalizerChange::Add) => {
                let mut changed = Value::clone(base);
                add_fn(FINALIZER).call(&mut changed).unwrap();
                (is_current(base) || response.is_some()).then_some(changed)
            }
            Some(_) if request.is_guarded && !is_current(base) => None,
            Some(_) => {
                let erasure = request.erasure.as_object().cloned().unwrap_or_default();
                let removal = Removal::new(FINALIZER).erasing(erasure);
                let operations = json!(removal.operations(base, false).unwrap());
                let operations: json_patch::Patch = serde_json::from_value(operations).unwrap();
                let mut changed = Value::clone(self.object.as_ref().unwrap_or(&object));
                json_patch::patch(&mut changed, &operations)
                    .ok()
                    .map(|()| changed)
            }
        };
        Some(match changed {
            Some(changed) => Outcome::Accepted(Some(self.write(changed))),
            None => Outcome::Conflict(response),
        })
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
        let finalizers = object["metadata"]["finalizers"].as_array();
        let is_gone = is_deleting(&object) && finalizers.is_none_or(Vec::is_empty);
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

/// Returns `true` if the finalizer of the operator is on the object.
pub(crate) fn has_finalizer(object: &Value) -> bool {
    has(object, FINALIZER)
}

fn has(object: &Value, finalizer: &str) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|list| list.iter().any(|present| present == finalizer))
}
