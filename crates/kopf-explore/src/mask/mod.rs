//! The normal form of objects: which values say something, and which differ from run to run.
//!
//! Versions, uids, times and managed fields never count. Other values that differ between
//! undisturbed runs are learned from these runs, together with the random parts of names.

mod lists;
mod names;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, LazyLock};

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use self::lists::Lists;
pub use self::names::NamePatterns;
use self::names::UUID;
use crate::journal::Snapshot;
use crate::object::{FieldDifference, FieldPath, InvalidPath, ObjectKey, field_differences};
use crate::object::{INTERFERENCE_LABEL, is_housekeeping};

/// Fields of the metadata that differ between runs by their nature.
const METADATA: [&str; 7] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
];

/// Fields that depend on the number of objects before them (addresses, ports, revisions), and the records of
/// elections by operators that are older than Leases.
const ASSIGNED: [(&str, &str); 16] = [
    ("pods", "status.podIP"),
    ("pods", "status.podIPs"),
    ("pods", "status.hostIP"),
    ("pods", "status.hostIPs"),
    ("pods", "status.containerStatuses[*].containerID"),
    ("services", "spec.clusterIP"),
    ("services", "spec.clusterIPs"),
    ("services", "spec.ports[*].nodePort"),
    ("services", "spec.healthCheckNodePort"),
    ("services", "status.loadBalancer"),
    ("endpoints", "subsets"),
    ("endpointslices", "endpoints"),
    ("controllerrevisions", "revision"),
    (
        "deployments",
        "metadata.annotations[\"deployment.kubernetes.io/revision\"]",
    ),
    ("configmaps", ELECTION),
    ("endpoints", ELECTION),
];

/// The leader and the time of its last renewal.
const ELECTION: &str = "metadata.annotations[\"control-plane.alpha.kubernetes.io/leader\"]";

/// How often the comparison of reference runs is repeated after new fields were masked.
const ROUNDS: usize = 8;

// The pattern is a constant and compiles; if it did not, nothing would be replaced.
static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?").ok()
});

/// A field whose value is not compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MaskedField {
    /// The resource; any if it is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The path of the field.
    pub path: FieldPath,
}

impl MaskedField {
    /// Parses a path, optionally with a resource before it: `status.time`,
    /// `configmaps:data.time`.
    pub fn parse(text: &str) -> Result<Self, InvalidPath> {
        let (resource, path) = match text.split_once(':') {
            Some((resource, path)) if !resource.contains(['.', '[', '"']) || is_plain(resource) => {
                (Some(resource.to_owned()), path)
            }
            _ => (None, text),
        };
        Ok(Self {
            resource,
            path: FieldPath::parse(path)?,
        })
    }

    fn applies_to(&self, resource: &str) -> bool {
        let Some(wanted) = &self.resource else {
            return true;
        };
        let plural = resource.split('.').next().unwrap_or(resource);
        wanted == resource || wanted == plural
    }
}

fn is_plain(text: &str) -> bool {
    text.chars()
        .all(|character| character.is_ascii_alphanumeric() || "-.".contains(character))
}

impl fmt::Display for MaskedField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.resource {
            Some(resource) => write!(f, "{resource}:{}", self.path),
            None => write!(f, "{}", self.path),
        }
    }
}

/// A difference between an object and the reference.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Difference {
    /// The object exists in the reference only.
    Missing {
        /// The object.
        key: ObjectKey,
    },
    /// The object does not exist in the reference.
    Unexpected {
        /// The object.
        key: ObjectKey,
        /// `true` if its deletion has begun.
        is_terminating: bool,
    },
    /// Fields differ.
    Changed {
        /// The object.
        key: ObjectKey,
        /// The fields.
        fields: Vec<FieldDifference>,
    },
}

impl Difference {
    /// Returns the object.
    pub fn key(&self) -> &ObjectKey {
        match self {
            Self::Missing { key } | Self::Unexpected { key, .. } | Self::Changed { key, .. } => key,
        }
    }
}

/// The objects of a snapshot in their normal form, by the patterns of their names.
pub type View = BTreeMap<ObjectKey, Vec<Value>>;

/// The reference runs disagree about objects, not only about values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{key} exists {counts} after step {step}")]
pub struct Unstable {
    /// The object.
    pub key: ObjectKey,
    /// The step of the scenario, from 1.
    pub step: usize,
    /// How often it exists in each run.
    pub counts: String,
}

/// The values and names that are not compared.
#[derive(Debug, Clone, Default)]
pub struct Mask {
    fields: BTreeSet<MaskedField>,
    assigned: BTreeSet<MaskedField>,
    names: NamePatterns,
    lists: Lists,
}

impl Mask {
    /// Returns a mask of the fields that the user ignores.
    pub fn new(ignored: impl IntoIterator<Item = MaskedField>) -> Self {
        let assigned = ASSIGNED.iter().filter_map(|(resource, path)| {
            Some(MaskedField {
                resource: Some((*resource).to_owned()),
                path: FieldPath::parse(path).ok()?,
            })
        });
        Self {
            fields: ignored.into_iter().collect(),
            assigned: assigned.collect(),
            names: NamePatterns::default(),
            lists: Lists::default(),
        }
    }

    /// Adds the schemas of custom kinds, whose lists may be in any order. Objects that are no CRDs are passed
    /// over.
    #[must_use]
    pub fn with_crds<'a>(mut self, objects: impl IntoIterator<Item = &'a Value>) -> Self {
        self.lists = Lists::of(objects);
        self
    }

    /// Returns the masked fields.
    pub fn fields(&self) -> impl Iterator<Item = &MaskedField> {
        self.fields.iter()
    }

    /// Returns the patterns of names.
    pub fn names(&self) -> &NamePatterns {
        &self.names
    }

    /// Learns from the snapshots of undisturbed runs: one list of snapshots per run, one snapshot per
    /// step.
    pub fn learn(mut self, runs: &[&[Option<Snapshot>]]) -> Result<Self, Unstable> {
        let names: Vec<Vec<&ObjectKey>> = runs
            .iter()
            .map(|run| {
                let snapshots = run.iter().flatten();
                snapshots.flat_map(|state| state.objects.keys()).collect()
            })
            .collect();
        let names: Vec<_> = names.iter().map(|keys| keys.iter().copied()).collect();
        self.names = NamePatterns::learn(&names);
        let Some((first, others)) = runs.split_first() else {
            return Ok(self);
        };
        for _ in 0..ROUNDS {
            let before = self.fields.len();
            for other in others {
                self.learn_pair(first, other)?;
            }
            if self.fields.len() == before {
                break;
            }
        }
        Ok(self)
    }

    fn learn_pair(
        &mut self,
        left: &[Option<Snapshot>],
        right: &[Option<Snapshot>],
    ) -> Result<(), Unstable> {
        for (index, (left, right)) in left.iter().zip(right).enumerate() {
            let (Some(left), Some(right)) = (left, right) else {
                continue;
            };
            let (left, right) = (self.view(left), self.view(right));
            let keys: BTreeSet<&ObjectKey> = left.keys().chain(right.keys()).collect();
            for key in keys {
                let (left, right) = (left.get(key), right.get(key));
                let counts = (left.map_or(0, Vec::len), right.map_or(0, Vec::len));
                if counts.0 != counts.1 {
                    return Err(Unstable {
                        key: key.clone(),
                        step: index + 1,
                        counts: format!(
                            "{} times in one run and {} in another",
                            counts.0, counts.1
                        ),
                    });
                }
                let pairs = left.into_iter().flatten().zip(right.into_iter().flatten());
                for (left, right) in pairs {
                    for difference in field_differences(left, right) {
                        self.fields.insert(MaskedField {
                            resource: Some(key.resource.clone()),
                            path: difference.path.any_item(),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the normal form of all objects that count.
    pub fn view(&self, snapshot: &Snapshot) -> View {
        let normal = Normal::of(snapshot, &self.names);
        let mut view = View::new();
        for (key, object) in &snapshot.objects {
            if is_housekeeping(&key.resource) || is_history(key, object, snapshot) {
                continue;
            }
            let mut value = normal.object(object);
            self.lists.sort(&mut value);
            self.strip(key, &mut value);
            let pattern = self.names.pattern(key, Some(object));
            view.entry(pattern).or_default().push(value);
        }
        for values in view.values_mut() {
            values.sort_by_cached_key(Value::to_string);
        }
        view
    }

    /// Returns `true` if two states of an object differ in a field that counts.
    pub fn is_change(&self, key: &ObjectKey, before: &Value, after: &Value) -> bool {
        let strip = |value: &Value| {
            let mut value = value.clone();
            drop_metadata(&mut value);
            self.strip(key, &mut value);
            value
        };
        strip(before) != strip(after)
    }

    /// Removes the masked fields.
    fn strip(&self, key: &ObjectKey, value: &mut Value) {
        for field in self.fields.iter().chain(&self.assigned) {
            if field.applies_to(&key.resource) {
                field.path.remove_from(value);
            }
        }
    }
}

/// Returns the differences between two states.
pub fn differences(expected: &View, found: &View) -> Vec<Difference> {
    let keys: BTreeSet<&ObjectKey> = expected.keys().chain(found.keys()).collect();
    let mut differences = Vec::new();
    for key in keys {
        let (left, right) = (expected.get(key), found.get(key));
        let left = left.map_or(&[][..], Vec::as_slice);
        let right = right.map_or(&[][..], Vec::as_slice);
        for (left, right) in left.iter().zip(right) {
            let fields = field_differences(left, right);
            if !fields.is_empty() {
                differences.push(Difference::Changed {
                    key: key.clone(),
                    fields,
                });
            }
        }
        for _ in right.len()..left.len() {
            differences.push(Difference::Missing { key: key.clone() });
        }
        for value in right.get(left.len()..).unwrap_or_default() {
            differences.push(Difference::Unexpected {
                key: key.clone(),
                is_terminating: value.pointer(TERMINATING).is_some(),
            });
        }
    }
    differences
}

/// A marker in the normal form of an object whose deletion has begun.
const TERMINATING: &str = "/metadata/<terminating>";

/// The conversion of the objects of one snapshot.
struct Normal<'a> {
    snapshot: &'a Snapshot,
    /// Random names with their patterns.
    names: Vec<(&'a str, String)>,
}

impl<'a> Normal<'a> {
    fn of(snapshot: &'a Snapshot, patterns: &NamePatterns) -> Self {
        let named = snapshot.objects.iter().filter_map(|(key, object)| {
            let pattern = patterns.pattern(key, Some(object));
            (pattern.name != key.name).then_some((key.name.as_str(), pattern.name))
        });
        Self {
            snapshot,
            names: named.collect(),
        }
    }

    fn object(&self, object: &Arc<Value>) -> Value {
        let mut value = Value::clone(object);
        let generation = value.pointer("/metadata/generation").cloned();
        let is_terminating = value.pointer("/metadata/deletionTimestamp").is_some();
        drop_metadata(&mut value);
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("uid");
            if is_terminating {
                metadata.insert("<terminating>".to_owned(), Value::Bool(true));
            }
            for list in ["finalizers", "ownerReferences"] {
                if let Some(Value::Array(items)) = metadata.get_mut(list) {
                    items.sort_by_cached_key(Value::to_string);
                }
            }
        }
        self.value(&mut value, generation.as_ref());
        value
    }

    fn value(&self, value: &mut Value, generation: Option<&Value>) {
        match value {
            Value::String(text) => {
                let inner = embedded(text);
                *text = self.text(inner.as_deref().unwrap_or(text));
            }
            Value::Array(items) => {
                for item in items.iter_mut() {
                    self.value(item, generation);
                }
                let typed =
                    |item: &Value| item.get("type").is_some() && item.get("status").is_some();
                if items.iter().all(typed) {
                    items.sort_by_cached_key(|item| item.get("type").map(Value::to_string));
                }
            }
            Value::Object(map) => {
                if let Some(observed) = map.get_mut("observedGeneration") {
                    let is_current = generation.is_some_and(|current| current == observed);
                    *observed = Value::from(if is_current {
                        "<current>"
                    } else {
                        "<outdated>"
                    });
                }
                for inner in map.values_mut() {
                    self.value(inner, generation);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn text(&self, text: &str) -> String {
        let mut result = text.to_owned();
        if text.len() >= 19
            && let Some(time) = TIME.as_ref()
        {
            result = time.replace_all(&result, "<time>").into_owned();
        }
        if text.len() >= 36
            && let Some(uuid) = UUID.as_ref()
        {
            let replaced = uuid.replace_all(&result, |found: &regex::Captures<'_>| {
                self.uid(found.get(0).map_or("", |found| found.as_str()))
            });
            result = replaced.into_owned();
        }
        for (name, pattern) in &self.names {
            if result.contains(name) {
                result = result.replace(name, pattern);
            }
        }
        result
    }

    fn uid(&self, uid: &str) -> String {
        let Some(key) = self.snapshot.uids.get(uid) else {
            return "<uid>".to_owned();
        };
        let pattern = self.names.iter().find(|(name, _)| *name == key.name);
        let key = pattern.map_or_else(|| key.clone(), |(_, pattern)| key.named(pattern.clone()));
        if self.snapshot.gone.contains(uid) {
            format!("<uid of a former {key}>")
        } else {
            format!("<uid of {key}>")
        }
    }
}

/// Returns `true` for what the API server itself adds, and for what controllers of workloads keep of former
/// states: how much of it there is depends on the states between, and not on the last one.
fn is_history(key: &ObjectKey, object: &Value, snapshot: &Snapshot) -> bool {
    let is_of_system = snapshot.of_system.contains(key);
    match key.resource.as_str() {
        // In every namespace, a moment after it is created.
        "configmaps" => is_of_system && key.name == "kube-root-ca.crt",
        "serviceaccounts" => is_of_system && key.name == "default",
        "replicasets.apps" => {
            is_of_system && object.pointer("/spec/replicas").and_then(Value::as_i64) == Some(0)
        }
        "controllerrevisions.apps" => is_of_system,
        "persistentvolumeclaims" => is_of_system && !is_mounted(key, snapshot),
        "persistentvolumes" => {
            let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
            let name = text("/spec/claimRef/name").unwrap_or_default();
            let namespace = text("/spec/claimRef/namespace");
            let claim = ObjectKey::new("", "persistentvolumeclaims", namespace, name);
            is_of_system && !is_mounted(&claim, snapshot)
        }
        _ => false,
    }
}

/// Returns `true` if a pod has the volume of a claim.
fn is_mounted(claim: &ObjectKey, snapshot: &Snapshot) -> bool {
    let pods = snapshot.objects.iter();
    let mut pods =
        pods.filter(|(key, _)| key.resource == "pods" && key.namespace == claim.namespace);
    pods.any(|(_, pod)| {
        let volumes = pod.pointer("/spec/volumes").and_then(Value::as_array);
        volumes.into_iter().flatten().any(|volume| {
            let name = volume.pointer("/persistentVolumeClaim/claimName");
            name.and_then(Value::as_str) == Some(claim.name.as_str())
        })
    })
}

/// Returns the normal form of an object within a text, such as the last applied configuration: without the
/// label of another client, which is not a difference there either.
fn embedded(text: &str) -> Option<String> {
    if !text.starts_with('{') {
        return None;
    }
    let mut value: Value = serde_json::from_str(text).ok()?;
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        if let Some(Value::Object(labels)) = metadata.get_mut("labels")
            && labels.remove(INTERFERENCE_LABEL).is_some()
            && labels.is_empty()
        {
            metadata.remove("labels");
        }
        if metadata.is_empty()
            && let Some(object) = value.as_object_mut()
        {
            object.remove("metadata");
        }
    }
    Some(value.to_string())
}

fn drop_metadata(value: &mut Value) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in METADATA {
            metadata.remove(field);
        }
        if let Some(Value::Object(labels)) = metadata.get_mut("labels") {
            labels.remove(INTERFERENCE_LABEL);
            if labels.is_empty() {
                metadata.remove("labels");
            }
        }
    }
}

#[cfg(test)]
mod tests;
