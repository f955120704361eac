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
use serde_json::{Value, json};

pub(crate) use columns::columns;

use crate::kinds::Kind;
use object::Object;

const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// The part of the object in each row: the `includeObject` parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IncludeObject {
    None,
    #[default]
    Metadata,
    Object,
}

impl IncludeObject {
    /// Parses the parameter. The error is the message of the 400 response.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
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
pub(crate) struct TableOptions<'a> {
    pub(crate) include: IncludeObject,
    /// Only the first event of a watch has column definitions.
    pub(crate) headers: bool,
    /// `meta.k8s.io/v1`, or `meta.k8s.io/v1beta1` on request.
    pub(crate) api_version: &'a str,
}

impl Default for TableOptions<'_> {
    fn default() -> Self {
        Self {
            include: IncludeObject::Metadata,
            headers: true,
            api_version: "meta.k8s.io/v1",
        }
    }
}

/// Returns the cells of an object, one for each column of the kind.
pub(crate) fn row(kind: &Kind, version: &str, object: &Value, now: Timestamp) -> Vec<Value> {
    if kind.is_custom() {
        let declared = kind
            .version(version)
            .map(|version| version.columns.as_slice());
        return custom::cells(declared.unwrap_or_default(), object, now);
    }
    let object = Object { value: object, now };
    let name = &*kind.kind;
    let cells = match &*kind.group {
        "" if name == "Pod" => Some(pods::pod(object)),
        "" => core::cells(name, object)
            .or_else(|| volumes::cells(name, object))
            .or_else(|| control_plane::cells(name, object)),
        "events.k8s.io" => Some(core::event(object)),
        "apps" | "batch" | "autoscaling" | "policy" => workloads::cells(name, object),
        "networking.k8s.io" | "discovery.k8s.io" => networking::cells(name, object),
        "storage.k8s.io" => volumes::cells(name, object),
        _ => access::cells(name, object).or_else(|| control_plane::cells(name, object)),
    };
    match cells {
        Some(cells)
            if columns::recorded(kind, version).map(<[Value]>::len) == Some(cells.len()) =>
        {
            cells
        }
        _ => columns(kind, version)
            .iter()
            .map(|column| plain_cell(column, object))
            .collect(),
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

/// Returns a whole table. `list_metadata` is the metadata of a list, or of the single object.
pub(crate) fn table_document<'a>(
    kind: &Kind,
    version: &str,
    list_metadata: &Value,
    objects: impl IntoIterator<Item = &'a Value>,
    options: TableOptions<'_>,
    now: Timestamp,
) -> Value {
    let mut metadata = serde_json::Map::new();
    for field in ["resourceVersion", "continue", "remainingItemCount"] {
        if let Some(value) = list_metadata
            .get(field)
            .filter(|value| **value != json!(""))
        {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    let rows: Vec<Value> = objects
        .into_iter()
        .map(|object| {
            let mut row = json!({
                "cells": row(kind, version, object, now),
                "object": included(object, options),
            });
            let is_pod = kind.group.is_empty() && &*kind.kind == "Pod";
            let conditions = if is_pod {
                pods::conditions(object)
            } else {
                None
            };
            if let (Some(conditions), Some(row)) = (conditions, row.as_object_mut()) {
                row.insert("conditions".to_owned(), conditions);
            }
            row
        })
        .collect();
    json!({
        "kind": "Table",
        "apiVersion": options.api_version,
        "metadata": metadata,
        "columnDefinitions": if options.headers { json!(columns(kind, version)) } else { Value::Null },
        "rows": rows,
    })
}

fn included(object: &Value, options: TableOptions<'_>) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    // Clients identify this bookmark by its metadata, so they are always present.
    let is_end = metadata
        .pointer("/annotations")
        .and_then(|it| it.get(INITIAL_EVENTS_END));
    match options.include {
        IncludeObject::Object => object.clone(),
        IncludeObject::None if is_end.is_none() => Value::Null,
        IncludeObject::None | IncludeObject::Metadata => json!({
            "kind": "PartialObjectMetadata",
            "apiVersion": options.api_version,
            "metadata": metadata,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::builtin;

    const SAMPLES: &str = include_str!("../../data/samples/tables.json");

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
            let cells = row(kind, version, object, now);
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
                    let cells = row(kind, &version.name, &object, now);
                    assert_eq!(cells.len(), columns, "{}", kind.kind);
                }
            }
        }
    }

    #[test]
    fn tables_have_the_expected_fields() {
        let kinds = builtin();
        let kind = kinds.by_plural("", "namespaces").unwrap();
        let object = json!({
            "metadata": { "name": "x", "creationTimestamp": "2030-01-01T00:00:00Z" },
            "status": { "phase": "Active" },
        });
        let list = json!({ "resourceVersion": "7", "continue": "", "remainingItemCount": 3 });
        let now = "2030-01-01T00:00:05Z".parse().unwrap();
        let options = TableOptions::default();
        let table = table_document(kind, "v1", &list, [&object], options, now);
        assert_eq!(
            table["metadata"],
            json!({ "resourceVersion": "7", "remainingItemCount": 3 })
        );
        assert_eq!(table["rows"][0]["cells"], json!(["x", "Active", "5s"]));
        assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
        assert_eq!(table["columnDefinitions"][1]["name"], "Status");

        let options = TableOptions {
            include: IncludeObject::None,
            headers: false,
            ..TableOptions::default()
        };
        let table = table_document(kind, "v1", &list, [&object], options, now);
        assert_eq!(table["columnDefinitions"], Value::Null);
        assert_eq!(table["rows"][0]["object"], Value::Null);

        let end = json!({ "metadata": { "annotations": { INITIAL_EVENTS_END: "true" } } });
        let table = table_document(kind, "v1", &list, [&end], options, now);
        assert_eq!(table["rows"][0]["cells"], json!(["", "", "<unknown>"]));
        assert_eq!(table["rows"][0]["object"]["metadata"], end["metadata"]);
    }

    #[test]
    fn finished_pods_are_marked() {
        let kinds = builtin();
        let kind = kinds.by_plural("", "pods").unwrap();
        let object = json!({ "status": { "phase": "Succeeded" } });
        let now = Timestamp::UNIX_EPOCH;
        let table = table_document(
            kind,
            "v1",
            &Value::Null,
            [&object],
            TableOptions::default(),
            now,
        );
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
