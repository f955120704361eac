//! Tables: the responses to `kubectl get`.
//!
//! Columns of built-in kinds are recorded from a real server; their cells are computed here.
//! Columns of custom resources come from their CRDs. Nothing here fails: a malformed object has an
//! empty row.

mod access;
mod columns;
mod control_plane;
mod core;
mod custom;
mod duration;
mod networking;
mod object;
mod pods;
mod volumes;
mod workloads;

use jiff::Timestamp;
use kopf_sandbox_schema::kind::Kind;
use object::Object;
use serde_json::{Value, json};

pub use columns::columns;

const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The part of the object in each row: the `includeObject` parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// Parses the parameter. The error is the message of the 400 response.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text {
            "None" => Ok(Self::None),
            "" | "Metadata" => Ok(Self::Metadata),
            "Object" => Ok(Self::Object),
            other => Err(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: \
                 {other:?}: must be 'Metadata', 'Object', 'None', or empty"
            )),
        }
    }
}

/// The options of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableOptions {
    pub include: IncludeObject,
    /// Only the first event of a watch has column definitions.
    pub headers: bool,
    /// `meta.k8s.io/v1`, or `meta.k8s.io/v1beta1` on request.
    pub api_version: &'static str,
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            include: IncludeObject::Metadata,
            headers: true,
            api_version: "meta.k8s.io/v1",
        }
    }
}

/// The parts of the cells of a kind that do not depend on the object, computed once for all rows.
#[derive(Debug)]
pub enum Cells {
    /// Columns of a CRD.
    Declared(Vec<custom::Column>),
    /// Columns of a built-in kind.
    BuiltIn {
        /// The number of recorded columns.
        recorded: Option<usize>,
        columns: Vec<Value>,
    },
}

impl Cells {
    pub fn of(kind: &Kind, version: &str) -> Self {
        if kind.is_custom() {
            let declared = kind
                .version(version)
                .map(|version| version.columns.as_slice());
            return Self::Declared(custom::compiled(declared.unwrap_or_default()));
        }
        Self::BuiltIn {
            recorded: columns::recorded(kind, version).map(<[Value]>::len),
            columns: columns(kind, version),
        }
    }

    /// Returns the cells of an object, one for each column.
    pub fn row(&self, kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
        let (recorded, columns) = match self {
            Self::Declared(declared) => return custom::cells(declared, object, now),
            Self::BuiltIn { recorded, columns } => (*recorded, columns),
        };
        let object = Object { value: object, now };
        match built_in(kind, object) {
            Some(cells) if recorded == Some(cells.len()) => cells,
            _ => columns
                .iter()
                .map(|column| plain_cell(column, object))
                .collect(),
        }
    }
}

/// Returns the cells of a built-in kind with own columns.
fn built_in(kind: &Kind, object: Object<'_>) -> Option<Vec<Value>> {
    let name = &*kind.kind;
    match &*kind.group {
        "" if name == "Pod" => Some(pods::pod(object)),
        "" => core::cells(name, object)
            .or_else(|| volumes::cells(name, object))
            .or_else(|| control_plane::cells(name, object)),
        "events.k8s.io" => Some(core::event(object)),
        "apps" | "batch" | "autoscaling" | "policy" => workloads::cells(name, object),
        "networking.k8s.io" | "discovery.k8s.io" => networking::cells(name, object),
        "storage.k8s.io" => volumes::cells(name, object),
        _ => access::cells(name, object).or_else(|| control_plane::cells(name, object)),
    }
}

/// Returns a cell that all kinds have in common.
fn plain_cell(column: &Value, object: Object<'_>) -> Value {
    match column.get("name").and_then(Value::as_str) {
        Some("Name") => object.name(),
        Some("Age") => object.age(),
        // A timestamp, not a duration: clients convert it to an age.
        Some("Created At") => json!(object.text("/metadata/creationTimestamp")),
        _ => json!("<none>"),
    }
}

/// Returns a table with one row.
pub fn single(
    kind: &Kind,
    version: &str,
    object: Value,
    options: TableOptions,
    now: Timestamp,
) -> Value {
    let list_metadata = object.get("metadata").cloned().unwrap_or_default();
    let row = row(kind, &Cells::of(kind, version), object, options, now);
    let mut table = head(kind, version, &list_metadata, options);
    table["rows"] = json!([row]);
    table
}

/// Returns a table without its rows. `list_metadata` is the metadata of a list, or of the single
/// object.
pub fn head(kind: &Kind, version: &str, list_metadata: &Value, options: TableOptions) -> Value {
    let mut metadata = serde_json::Map::new();
    for field in ["resourceVersion", "continue", "remainingItemCount"] {
        if let Some(value) = list_metadata
            .get(field)
            .filter(|value| **value != json!(""))
        {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    json!({
        "kind": "Table",
        "apiVersion": options.api_version,
        "metadata": metadata,
        "columnDefinitions": if options.headers { json!(columns(kind, version)) } else { Value::Null },
    })
}

/// Returns the row of an object.
pub fn row(
    kind: &Kind,
    cells: &Cells,
    object: Value,
    options: TableOptions,
    now: Timestamp,
) -> Value {
    let is_pod = kind.group.is_empty() && &*kind.kind == "Pod";
    let conditions = is_pod.then(|| pods::conditions(&object)).flatten();
    let cells = cells.row(kind, &object, now);
    let mut row = json!({ "cells": cells, "object": included(object, options) });
    if let Some(conditions) = conditions {
        row["conditions"] = conditions;
    }
    row
}

fn included(mut object: Value, options: TableOptions) -> Value {
    if options.include == IncludeObject::Object {
        return object;
    }
    let metadata = object.get_mut("metadata").map(Value::take);
    let metadata = metadata.unwrap_or_else(|| json!({}));
    // Clients identify this bookmark by its metadata, so they are always present.
    let is_end = metadata
        .pointer("/annotations")
        .and_then(|it| it.get(INITIAL_EVENTS_END));
    if options.include == IncludeObject::None && is_end.is_none() {
        return Value::Null;
    }
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": options.api_version,
        "metadata": metadata,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::builtin;

    const SAMPLES: &str = include_str!("../../../schema/data/samples/tables.json");

    /// Masks the uid of a job in its selector, which differs between recordings.
    fn known(cell: &Value) -> Value {
        match cell
            .as_str()
            .and_then(|text| text.split_once("controller-uid="))
        {
            Some((before, _)) => json!(before),
            None => cell.clone(),
        }
    }

    #[test]
    fn rows_match_a_real_server() {
        let kinds = builtin();
        let samples: Value = serde_json::from_str(SAMPLES).unwrap();
        let mut compared = 0;
        let mut wrong = Vec::new();
        for sample in samples.as_array().unwrap() {
            let object = &sample["object"];
            let (group, version) = group_version(object["apiVersion"].as_str().unwrap());
            let kind = kinds
                .by_kind(group, object["kind"].as_str().unwrap())
                .unwrap();
            let now = sample["now"].as_str().unwrap().parse().unwrap();
            let cells = Cells::of(kind, version).row(kind, object, now);
            let expected = sample["row"].as_array().unwrap();
            let same = cells.len() == expected.len()
                && cells
                    .iter()
                    .zip(expected)
                    .all(|(ours, theirs)| known(ours) == known(theirs));
            if !same {
                wrong.push(format!(
                    "{} {cells:?}\n  instead of {expected:?}",
                    kind.kind
                ));
            }
            compared += 1;
        }
        assert!(compared >= 80, "{compared} samples");
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    fn group_version(api_version: &str) -> (&str, &str) {
        api_version.split_once('/').unwrap_or(("", api_version))
    }

    #[test]
    fn every_built_in_kind_has_as_many_cells_as_columns() {
        let kinds = builtin();
        let now = Timestamp::UNIX_EPOCH;
        for kind in kinds.iter() {
            for version in &kind.versions {
                let columns = columns(kind, &version.name).len();
                for object in [
                    json!({}),
                    json!({ "spec": [], "status": 1, "metadata": "x" }),
                ] {
                    let cells = Cells::of(kind, &version.name).row(kind, &object, now);
                    assert_eq!(cells.len(), columns, "{}", kind.kind);
                }
            }
        }
    }

    #[test]
    fn tables_have_the_expected_fields() {
        let kinds = builtin();
        let kind = kinds.by_plural("", "namespaces").unwrap();
        let object = json!({ "metadata": {
            "name": "x", "creationTimestamp": "2030-01-01T00:00:00Z", "resourceVersion": "7",
        }, "status": { "phase": "Active" } });
        let now = "2030-01-01T00:00:05Z".parse().unwrap();
        let options = TableOptions::default();
        let table = single(kind, "v1", object.clone(), options, now);
        assert_eq!(table["metadata"], json!({ "resourceVersion": "7" }));
        assert_eq!(table["rows"][0]["cells"], json!(["x", "Active", "5s"]));
        assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
        assert_eq!(table["columnDefinitions"][1]["name"], "Status");
        let list = json!({ "resourceVersion": "7", "continue": "", "remainingItemCount": 3 });
        assert_eq!(
            head(kind, "v1", &list, options)["metadata"],
            json!({ "resourceVersion": "7", "remainingItemCount": 3 })
        );

        let options = TableOptions {
            include: IncludeObject::None,
            headers: false,
            ..TableOptions::default()
        };
        let table = single(kind, "v1", object, options, now);
        assert_eq!(table["columnDefinitions"], Value::Null);
        assert_eq!(table["rows"][0]["object"], Value::Null);

        let end = json!({ "metadata": { "annotations": { INITIAL_EVENTS_END: "true" } } });
        let table = single(kind, "v1", end.clone(), options, now);
        assert_eq!(table["rows"][0]["cells"], json!(["", "", "<unknown>"]));
        assert_eq!(table["rows"][0]["object"]["metadata"], end["metadata"]);
    }

    #[test]
    fn finished_pods_are_marked() {
        let kinds = builtin();
        let kind = kinds.by_plural("", "pods").unwrap();
        let object = json!({ "status": { "phase": "Succeeded" } });
        let now = Timestamp::UNIX_EPOCH;
        let table = single(kind, "v1", object, TableOptions::default(), now);
        assert_eq!(table["rows"][0]["conditions"][0]["type"], "Completed");
    }

    #[test]
    fn include_object_selects_the_part_of_the_object() {
        assert_eq!(IncludeObject::parse(""), Ok(IncludeObject::Metadata));
        assert_eq!(IncludeObject::parse("Object"), Ok(IncludeObject::Object));
        assert!(
            IncludeObject::parse("x")
                .unwrap_err()
                .contains("must be 'Metadata'")
        );
    }
}
