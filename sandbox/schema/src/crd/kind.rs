//! Conversion of a CRD to the kind that it defines.

use std::sync::Arc;

use serde_json::Value;

use super::conditions::is_terminating;
use super::folding::{Part, schema, versions};
use crate::field_error::FieldError;
use crate::kind::{
    Kind, KindVersion, Origin, PrinterColumn, ScalePaths, Subresource, compare_versions,
};
use crate::schema::Structural;

const VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];

/// Builds the kind of a valid CRD: its served versions, the preferred one first.
///
/// `born` is the revision at which the CRD was created. Schemas that are equal to those of the
/// `former` state are reused, because compiling is expensive.
///
/// # Errors
///
/// A schema cannot be compiled; paths are relative to the CRD.
pub fn kind(
    crd: &Value,
    born: u64,
    former: Option<(&Value, &Kind)>,
) -> Result<Kind, Vec<FieldError>> {
    let text = |pointer: &str| {
        crd.pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    // Accepted names are served. A CRD that was never evaluated has none.
    let name = |key: &str| -> Arc<str> {
        let accepted = text(&format!("/status/acceptedNames/{key}"));
        let name = if accepted.is_empty() {
            text(&format!("/spec/names/{key}"))
        } else {
            accepted
        };
        Arc::from(name)
    };
    let names = if text("/status/acceptedNames/plural").is_empty() {
        crd.pointer("/spec/names")
    } else {
        crd.pointer("/status/acceptedNames")
    };
    let list = |key: &str| texts(names.and_then(|names| names.get(key)));

    let mut kind = Kind {
        group: Arc::from(text("/spec/group")),
        kind: name("kind"),
        list_kind: name("listKind"),
        plural: name("plural"),
        singular: name("singular"),
        short_names: list("shortNames"),
        categories: list("categories"),
        namespaced: text("/spec/scope") == "Namespaced",
        terminating: is_terminating(crd),
        versions: Vec::new(),
        storage_version: Arc::from(""),
        conversion_webhook: conversion_webhook(crd),
        origin: Origin::Custom {
            crd: Arc::from(text("/metadata/name")),
            born,
        },
    };
    for (index, version) in versions(crd).iter().enumerate() {
        let name = version
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        if is_set(version, "storage") {
            kind.storage_version = Arc::from(name);
        }
        if is_set(version, "served") {
            let path = format!("spec.versions[{index}].schema.openAPIV3Schema");
            let known = former.and_then(|(crd, kind)| known_schema(crd, kind, version));
            let made = kind_version(crd, &kind, version, &path, known)?;
            kind.versions.push(made);
        }
    }
    kind.versions
        .sort_by(|a, b| compare_versions(&b.name, &a.name));
    Ok(kind)
}

/// Returns `spec.conversion.webhook` of a CRD with the conversion strategy `Webhook`.
fn conversion_webhook(crd: &Value) -> Option<Arc<Value>> {
    let conversion = crd.pointer("/spec/conversion")?;
    if conversion.get("strategy").and_then(Value::as_str) != Some("Webhook") {
        return None;
    }
    conversion.get("webhook").cloned().map(Arc::new)
}

fn kind_version(
    crd: &Value,
    kind: &Kind,
    version: &Value,
    schema_path: &str,
    known: Option<Arc<Structural>>,
) -> Result<KindVersion, Vec<FieldError>> {
    let name = version
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let compiled = match known {
        Some(known) => Ok(Some(known)),
        None => schema(version)
            .map(|schema| Structural::compile(schema).map(Arc::new))
            .transpose(),
    };
    let schema = compiled.map_err(|errors| {
        let located = errors.into_iter().map(|error| FieldError {
            field: format!("{schema_path}.{}", error.field),
            ..error
        });
        located.collect::<Vec<_>>()
    })?;
    let is_open =
        |verb: &&str| !kind.terminating || !matches!(*verb, "patch" | "create" | "update");
    let subresource = |key: &str| {
        Part::Subresources
            .of(version)?
            .get(key)
            .filter(|subresource| !subresource.is_null())
    };
    let mut subresources = Vec::new();
    let make = |name: &str, group: &str, version: &str, kind: &str| Subresource {
        name: name.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
    };
    if subresource("status").is_some() {
        subresources.push(make("status", &kind.group, name, &kind.kind));
    }
    let scale = subresource("scale");
    if scale.is_some() {
        subresources.push(make("scale", "autoscaling", "v1", "Scale"));
    }
    let selectable = Part::SelectableFields.of(version).and_then(Value::as_array);
    Ok(KindVersion {
        name: Arc::from(name),
        verbs: VERBS
            .iter()
            .filter(|verb| is_open(verb))
            .map(|verb| (*verb).to_owned())
            .collect(),
        subresources,
        schema,
        columns: columns(version),
        scale: scale.map(scale_paths),
        selectable_fields: selectable
            .into_iter()
            .flatten()
            .filter_map(|field| field.get("jsonPath")?.as_str().map(str::to_owned))
            .collect(),
        deprecation_warning: is_set(version, "deprecated")
            .then(|| deprecation_warning(crd, kind, version, name)),
    })
}

/// Returns the compiled schema of a version, if it is equal to that of the former state.
fn known_schema(former: &Value, kind: &Kind, version: &Value) -> Option<Arc<Structural>> {
    let name = version.get("name")?;
    let before = versions(former)
        .iter()
        .find(|version| version.get("name") == Some(name))?;
    if schema(before) != schema(version) {
        return None;
    }
    kind.version(name.as_str()?)?.schema.clone()
}

fn columns(version: &Value) -> Vec<PrinterColumn> {
    let columns = Part::Columns
        .of(version)
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let column = |column: &Value| {
        let text = |key: &str| {
            column
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let priority = column
            .get("priority")
            .and_then(Value::as_i64)
            .unwrap_or_default();
        PrinterColumn {
            name: text("name"),
            kind: text("type"),
            format: text("format"),
            description: text("description"),
            priority: i32::try_from(priority).unwrap_or_default(),
            json_path: text("jsonPath"),
        }
    };
    columns.map(column).collect()
}

fn scale_paths(scale: &Value) -> ScalePaths {
    let text = |key: &str| {
        scale
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    ScalePaths {
        spec_replicas: text("specReplicasPath"),
        status_replicas: text("statusReplicasPath"),
        label_selector: Some(text("labelSelectorPath")).filter(|path| !path.is_empty()),
    }
}

/// Returns the CRD's own deprecation warning, or one that names the recommended version.
fn deprecation_warning(crd: &Value, kind: &Kind, version: &Value, name: &str) -> String {
    if let Some(own) = version.get("deprecationWarning").and_then(Value::as_str) {
        return own.to_owned();
    }
    let better = versions(crd)
        .iter()
        .filter(|other| is_set(other, "served") && !is_set(other, "deprecated"))
        .filter_map(|other| other.get("name")?.as_str())
        .filter(|other| compare_versions(name, other).is_lt())
        .max_by(|a, b| compare_versions(a, b));
    let (group, kind) = (&kind.group, &kind.kind);
    match better {
        None => format!("{group}/{name} {kind} is deprecated"),
        Some(better) => {
            format!("{group}/{name} {kind} is deprecated; use {group}/{better} {kind}")
        }
    }
}

fn is_set(version: &Value, key: &str) -> bool {
    version
        .get(key)
        .and_then(Value::as_bool)
        .unwrap_or_default()
}

fn texts(list: Option<&Value>) -> Vec<String> {
    let list = list.and_then(Value::as_array).into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn crd() -> Value {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        json!({
            "metadata": {"name": "things.g.io"},
            "spec": {
                "group": "g.io", "scope": "Namespaced",
                "names": {
                    "plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList",
                    "shortNames": ["th"], "categories": ["all"],
                },
                "versions": [
                    {"name": "v1beta1", "served": true, "deprecated": true, "schema": schema},
                    {"name": "v1alpha1", "served": false, "schema": schema},
                    {
                        "name": "v1", "served": true, "storage": true, "schema": schema,
                        "subresources": {
                            "status": {},
                            "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
                        },
                        "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n"}],
                        "selectableFields": [{"jsonPath": ".spec.color"}],
                    },
                ],
            },
        })
    }

    #[test]
    fn served_versions_are_ordered_by_preference() {
        let kind = kind(&crd(), 1, None).unwrap();
        let names: Vec<&str> = kind.versions.iter().map(|version| &*version.name).collect();
        assert_eq!(names, ["v1", "v1beta1"]);
        assert_eq!(&*kind.storage_version, "v1");
        assert_eq!(kind.short_names, ["th"]);
        let version = kind.version("v1").unwrap();
        assert_eq!(version.verbs, VERBS);
        let scale = version.subresource("scale").unwrap();
        assert_eq!(
            (&*scale.group, &*scale.version, &*scale.kind),
            ("autoscaling", "v1", "Scale")
        );
        assert_eq!(version.subresource("status").unwrap().kind, "Thing");
        assert_eq!(version.selectable_fields, [".spec.color"]);
        assert_eq!(version.columns.len(), 1);
        assert!(version.schema.is_some());
    }

    #[test]
    fn deprecation_warnings_name_the_replacement() {
        let mut crd = crd();
        let warning = |crd: &Value| {
            kind(crd, 1, None)
                .unwrap()
                .version("v1beta1")
                .unwrap()
                .deprecation_warning
                .clone()
        };
        assert_eq!(
            warning(&crd).unwrap(),
            "g.io/v1beta1 Thing is deprecated; use g.io/v1 Thing"
        );
        crd["spec"]["versions"][0]["deprecationWarning"] = "go away".into();
        assert_eq!(warning(&crd).unwrap(), "go away");
    }

    #[test]
    fn terminating_crd_rejects_creations() {
        let mut crd = crd();
        crd["status"] = json!({"conditions": [{"type": "Terminating", "status": "True"}]});
        let kind = kind(&crd, 1, None).unwrap();
        assert_eq!(
            kind.versions[0].verbs,
            ["delete", "deletecollection", "get", "list", "watch"]
        );
    }
}
