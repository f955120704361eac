//! The API server of the model: one object, its versions, and the events on their way.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use kopf_core::body::Body;
use kopf_core::cause::EventType;
use kopf_core::object::WritePlan;
use kopf_core::patch::{json_calls_between, with_version_test};
use serde_json::{Map, Value, json};

/// The finalizer of the operator.
pub(crate) const FINALIZER: &str = "kopf.zalando.org/KopfFinalizerMarker";

/// The finalizer of another client.
const OTHER: &str = "example.com/other";

/// An event on its way to the operator.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Event {
    pub(crate) change: EventType,
    pub(crate) body: Arc<Value>,
    /// The operator has written this version.
    pub(crate) is_own: bool,
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
    /// Versions of objects are no numbers.
    pub(crate) is_opaque: bool,
}

/// A write of the operator on its way: a merge patch, then a JSON patch.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) plan: WritePlan,
    /// The version that the JSON patch is made for, unless the merge patch goes first.
    pub(crate) base: Arc<Value>,
    /// The response to the merge patch.
    pub(crate) merged: Option<Arc<Value>>,
    /// The merge patch to be sent again if the response to it is lost.
    pub(crate) last: Map<String, Value>,
    /// A mutation: the removal of the finalizer is guarded by the version of the object.
    pub(crate) is_guarded: bool,
}

impl Hash for Request {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let patch = &self.plan.patch;
        let effect = patch
            .applied_to(&Body::from(Arc::clone(&self.base)))
            .unwrap();
        (format!("{patch:?}"), effect.value()).hash(state);
        (format!("{:?}", self.plan.removal), self.plan.is_release).hash(state);
        (&self.base, &self.merged, &self.last).hash(state);
    }
}

/// The result of a request.
#[derive(Clone, Debug, Hash)]
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

    /// Applies a merge patch of the operator; returns the response.
    pub(crate) fn merge(&mut self, merge: &Map<String, Value>) -> Option<Arc<Value>> {
        let mut changed = Value::clone(self.object.as_ref()?);
        json_patch::merge(&mut changed, &Value::Object(merge.clone()));
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
        let plan = &mut request.plan;
        if !plan.patch.merge.is_empty() {
            request.last = std::mem::take(&mut plan.patch.merge);
            request.merged = self.merge(&request.last);
            let is_last = plan.patch.fns.is_empty() && plan.removal.is_none();
            return is_last.then(|| Outcome::Accepted(request.merged.clone()));
        }
        request.last.clear();
        let response = request.merged.clone();
        let base = response
            .as_ref()
            .filter(|merged| number(merged) > number(&request.base))
            .unwrap_or(&request.base);
        let operations = operations(plan, base);
        if operations.is_empty() {
            return Some(Outcome::Accepted(response));
        }
        let is_current =
            base["metadata"]["resourceVersion"] == object["metadata"]["resourceVersion"];
        let operations: json_patch::Patch = serde_json::from_value(json!(operations)).unwrap();
        let mut changed = Value::clone(&object);
        let is_applied = json_patch::patch(&mut changed, &operations).is_ok();
        Some(if is_applied && (is_current || !request.is_guarded) {
            Outcome::Accepted(Some(self.write(changed)))
        } else {
            Outcome::Conflict(response)
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
        let stored = self.store(changed, EventType::Modified);
        if let Some(event) = self.events.back_mut() {
            event.is_own = true;
        }
        stored
    }

    fn store(&mut self, mut object: Value, event: EventType) -> Arc<Value> {
        self.version += 1;
        let prefix = if self.is_opaque { "v" } else { "" };
        object["metadata"]["resourceVersion"] = json!(format!("{prefix}{}", self.version));
        let object = Arc::new(object);
        let finalizers = object["metadata"]["finalizers"].as_array();
        let is_gone = is_deleting(&object) && finalizers.is_none_or(Vec::is_empty);
        let event = if is_gone { EventType::Deleted } else { event };
        self.events.push_back(Event {
            change: event,
            body: Arc::clone(&object),
            is_own: false,
        });
        self.object = (!is_gone).then(|| Arc::clone(&object));
        object
    }
}

/// Returns the JSON patch of a write for a version of the object.
fn operations(plan: &WritePlan, base: &Value) -> Vec<Value> {
    let mut changed = base.clone();
    for function in &plan.patch.fns {
        function.call(&mut changed).unwrap();
    }
    let transformed = json_calls_between(base, &changed, false).unwrap().main;
    let removal = plan.removal.as_ref();
    let removal = removal.map(|removal| removal.operations(&changed, false).unwrap());
    let is_guarded = !transformed.is_empty();
    let operations = [transformed, removal.unwrap_or_default()].concat();
    if !is_guarded {
        return operations;
    }
    let version = base["metadata"]["resourceVersion"].as_str();
    let guarded = with_version_test(operations, version.unwrap_or_default());
    guarded.as_array().cloned().unwrap_or_default()
}

/// Returns the version of an object.
pub(crate) fn number(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    let digits = version.unwrap_or_default().trim_start_matches('v');
    digits.parse().unwrap_or(0)
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
