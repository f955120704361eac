//! The entries of `metadata.managedFields`.

use std::collections::BTreeMap;

use kopf_sandbox_schema::fields::FieldSet;
use kopf_sandbox_schema::kind::Kind;
use serde_json::{Map, Value, json};

/// Maximum length of the name of a manager, in bytes.
const MAX_NAME: usize = 128;

/// The operation of a manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    Apply,
    Update,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Apply => "Apply",
            Self::Update => "Update",
        }
    }
}

/// The identity of a manager.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Manager {
    pub name: String,
    pub operation: Operation,
    /// Empty for appliers, which keep their identity across versions.
    api_version: String,
    pub subresource: String,
}

impl Manager {
    pub(crate) fn new(
        name: &str,
        operation: Operation,
        api_version: &str,
        subresource: Option<&str>,
    ) -> Self {
        let name = if name.is_empty() { "unknown" } else { name };
        let api_version = match operation {
            Operation::Apply => "",
            Operation::Update => api_version,
        };
        Self {
            name: name.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.unwrap_or_default().to_owned(),
        }
    }

    /// Returns the manager as in conflict messages.
    pub(crate) fn shown(&self) -> String {
        let mut text = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            text = format!("{text} with subresource {:?}", self.subresource);
        }
        if self.operation == Operation::Update {
            text = format!("{text} using {}", self.api_version);
        }
        text
    }
}

/// The fields of one manager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owned {
    pub set: FieldSet,
    pub api_version: String,
    pub time: Option<String>,
}

/// All managers of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Managed {
    pub owners: BTreeMap<Manager, Owned>,
}

impl Managed {
    pub(crate) fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Decodes `metadata.managedFields`. `None` if an entry is malformed.
    pub(crate) fn decode(entries: &Value) -> Option<Self> {
        let mut owners = BTreeMap::new();
        for entry in entries.as_array().into_iter().flatten() {
            let text = |field: &str| entry.get(field).and_then(Value::as_str).unwrap_or_default();
            let operation = match text("operation") {
                "Apply" => Operation::Apply,
                "Update" => Operation::Update,
                _ => return None,
            };
            if text("fieldsType") != "FieldsV1" {
                return None;
            }
            let set = match entry.get("fieldsV1") {
                Some(fields) => FieldSet::from_json(fields)?,
                None => FieldSet::default(),
            };
            let manager = Manager::new(
                text("manager"),
                operation,
                text("apiVersion"),
                Some(text("subresource")),
            );
            let owned = Owned {
                set,
                api_version: text("apiVersion").to_owned(),
                time: entry.get("time").and_then(Value::as_str).map(str::to_owned),
            };
            owners.insert(manager, owned);
        }
        Some(Self { owners })
    }

    /// Encodes `metadata.managedFields`. `None` if there are no managers.
    pub(crate) fn encode(&self) -> Option<Value> {
        if self.is_empty() {
            return None;
        }
        let mut sorted: Vec<(&Manager, &Owned)> = self.owners.iter().collect();
        sorted.sort_by(|(a, of_a), (b, of_b)| {
            (
                a.operation,
                &of_a.time,
                &a.name,
                &of_a.api_version,
                &a.subresource,
            )
                .cmp(&(
                    b.operation,
                    &of_b.time,
                    &b.name,
                    &of_b.api_version,
                    &b.subresource,
                ))
        });
        let entries = sorted.into_iter().map(|(manager, owned)| {
            let mut entry = Map::new();
            entry.insert("manager".to_owned(), json!(manager.name));
            entry.insert("operation".to_owned(), json!(manager.operation.name()));
            entry.insert("apiVersion".to_owned(), json!(owned.api_version));
            if let Some(time) = &owned.time {
                entry.insert("time".to_owned(), json!(time));
            }
            entry.insert("fieldsType".to_owned(), json!("FieldsV1"));
            entry.insert("fieldsV1".to_owned(), owned.set.to_json());
            if !manager.subresource.is_empty() {
                entry.insert("subresource".to_owned(), json!(manager.subresource));
            }
            Value::Object(entry)
        });
        Some(entries.collect())
    }

    /// Returns the managers after an update: those of the new object, or those of the live one if the
    /// new object has none or is a subresource. An empty list, or one empty entry, resets them.
    pub(crate) fn of_update(live: &Value, new: &Value, subresource: Option<&str>) -> Self {
        let of = |object: &Value| object.pointer("/metadata/managedFields").cloned();
        let given = of(new).filter(|_| subresource.is_none());
        let decoded = match given.as_ref().and_then(Value::as_array).map(Vec::as_slice) {
            Some([]) => return Self::default(),
            Some([only]) if only.as_object().is_some_and(Map::is_empty) => return Self::default(),
            Some(_) => given.as_ref().and_then(Self::decode),
            None => None,
        };
        decoded
            .filter(|managed| !managed.is_empty())
            .or_else(|| of(live).as_ref().and_then(Self::decode))
            .unwrap_or_default()
    }
}

/// Replaces an empty list of entries, which resets the managers, by one empty entry, because
/// decoding drops empty lists. For custom resources an empty list has no effect.
pub fn keep_reset(kind: &Kind, object: &mut Value) {
    if !kind.is_custom()
        && let Some(entries) = object.pointer_mut("/metadata/managedFields")
        && entries.as_array().is_some_and(Vec::is_empty)
    {
        *entries = json!([{}]);
    }
}

/// Restores the entries of `live` in `new` if they differ only in their times, so that a write
/// without other changes is a no-op.
pub fn keep_times(live: &Value, new: &mut Value) {
    let timeless = |object: &Value| -> Option<Vec<Value>> {
        let mut entries = object
            .pointer("/metadata/managedFields")?
            .as_array()?
            .clone();
        for entry in &mut entries {
            if let Some(entry) = entry.as_object_mut() {
                entry.remove("time");
            }
        }
        // The order depends on the times.
        entries.sort_by_key(Value::to_string);
        Some(entries)
    };
    let (Some(old), Some(now)) = (
        live.pointer("/metadata/managedFields"),
        new.pointer("/metadata/managedFields"),
    ) else {
        return;
    };
    if old == now || timeless(live) != timeless(new) {
        return;
    }
    let old = old.clone();
    let Some(place) = new.pointer_mut("/metadata/managedFields") else {
        return;
    };
    let now = std::mem::replace(place, old);
    if new != live
        && let Some(place) = new.pointer_mut("/metadata/managedFields")
    {
        *place = now;
    }
}

/// Returns the default name of a manager: the first part of its `User-Agent`.
pub fn name_of_agent(agent: &str) -> String {
    let first = agent.split('/').next().unwrap_or_default();
    let mut name = String::new();
    for character in first.chars().filter(|c| !c.is_control()) {
        if name.len() + character.len_utf8() > MAX_NAME {
            break;
        }
        name.push(character);
    }
    name
}
