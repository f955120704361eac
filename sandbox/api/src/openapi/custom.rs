//! The OpenAPI document of a group of custom resources.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use kopf_sandbox_schema::kind::{Kind, KindVersion, Kinds};
use serde_json::{Map, Value, json};

use super::Fingerprint;
use super::operations;
use super::recorded;

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";

/// A built-in kind whose fields `apiVersion`, `kind` and `metadata` are common to all kinds.
const MODEL: &str = "/components/schemas/io.k8s.api.apps.v1.Deployment/properties";

/// The parts of documents of custom resources that do not depend on CRDs.
struct Shared {
    /// Schemas that custom resources refer to: metadata, options, statuses and `Scale`.
    schemas: BTreeMap<String, Value>,
    /// The fields `apiVersion`, `kind` and `metadata` with their descriptions.
    fields: Map<String, Value>,
}

static SHARED: LazyLock<Shared> = LazyLock::new(|| {
    let document: Value = recorded::document("apis/apps/v1")
        .and_then(|document| serde_json::from_slice(document.described()).ok())
        .unwrap_or_default();
    let schemas = document
        .pointer("/components/schemas")
        .and_then(Value::as_object);
    let schemas = schemas.into_iter().flatten().filter(|(name, _)| {
        name.starts_with(META) || name.starts_with("io.k8s.api.autoscaling.v1.Scale")
    });
    let fields = document.pointer(MODEL).and_then(Value::as_object);
    let fields = fields
        .into_iter()
        .flatten()
        .filter(|(name, _)| ["apiVersion", "kind", "metadata"].contains(&name.as_str()));
    Shared {
        schemas: schemas
            .map(|(name, schema)| (name.clone(), schema.clone()))
            .collect(),
        fields: fields
            .map(|(name, schema)| (name.clone(), schema.clone()))
            .collect(),
    }
});

/// Returns the document of `apis/GROUP/VERSION`, with the custom resources in it.
pub fn custom_document(kinds: &Kinds, group: &str, version: &str) -> Value {
    let mut paths = Map::new();
    let mut schemas: Map<String, Value> = SHARED
        .schemas
        .iter()
        .map(|(name, schema)| (name.clone(), schema.clone()))
        .collect();
    for (kind, version) in served(kinds, group, version) {
        schemas.extend(definitions(kind, version));
        operations::add(&mut paths, kind, version);
    }
    json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes CRD Swagger", "version": "v0.1.0" },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

/// Returns a hash of all inputs of the document, at a fraction of the cost of the document.
pub(super) fn fingerprint(kinds: &Kinds, group: &str, version: &str) -> String {
    let mut fingerprint = Fingerprint::default();
    for (kind, version) in served(kinds, group, version) {
        for name in [
            &*kind.group,
            &version.name,
            &kind.kind,
            &kind.list_kind,
            &kind.plural,
        ] {
            fingerprint.add(name);
        }
        fingerprint.add(if kind.namespaced {
            "namespaced"
        } else {
            "cluster"
        });
        for sub in &version.subresources {
            fingerprint.add(&sub.name);
        }
        for path in &version.selectable_fields {
            fingerprint.add(path);
        }
        let schema = version
            .schema
            .as_ref()
            .map(|schema| schema.raw().to_string());
        fingerprint.add(&schema.unwrap_or_default());
    }
    fingerprint.text()
}

/// Returns the definitions of the kind and of its list.
pub(super) fn definitions(kind: &Kind, version: &KindVersion) -> [(String, Value); 2] {
    let mut schema = version
        .schema
        .as_ref()
        .map_or_else(|| json!({}), |it| it.raw().clone());
    add_int_or_string(&mut schema);
    let fields = [
        ("type", json!("object")),
        (
            "x-kubernetes-group-version-kind",
            json!([gvk(kind, &version.name, &kind.kind)]),
        ),
    ];
    if let Some(schema) = schema.as_object_mut() {
        schema.extend(fields.map(|(name, value)| (name.to_owned(), value)));
        let properties = schema.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            properties.extend(SHARED.fields.clone());
            if let Some(metadata) = properties
                .get_mut("metadata")
                .and_then(Value::as_object_mut)
            {
                metadata.remove("default"); // custom resources have none
            }
        }
        if !version.selectable_fields.is_empty() {
            let paths = version.selectable_fields.iter();
            let paths: Vec<Value> = paths
                .map(|path| json!({ "fieldPath": path.trim_start_matches('.') }))
                .collect();
            schema.insert("x-kubernetes-selectable-fields".to_owned(), json!(paths));
        }
    }
    let mut properties = SHARED.fields.clone();
    properties.insert(
        "items".to_owned(),
        json!({
            "description": format!("List of {}.", kind.plural),
            "type": "array",
            "items": { "$ref": reference(&name_of(kind, version)) },
        }),
    );
    properties.insert(
        "metadata".to_owned(),
        json!({
            "description": "Standard list metadata.",
            "allOf": [{ "$ref": reference(&format!("{META}.ListMeta")) }],
        }),
    );
    let list = json!({
        "description": format!("{} is a list of {}", kind.list_kind, kind.kind),
        "type": "object",
        "required": ["items"],
        "properties": properties,
        "x-kubernetes-group-version-kind": [gvk(kind, &version.name, &kind.list_kind)],
    });
    [
        (name_of(kind, version), schema),
        (list_name_of(kind, version), list),
    ]
}

/// Returns `com.example.v1.Kind` for the group `example.com`.
pub(super) fn name_of(kind: &Kind, version: &KindVersion) -> String {
    format!("{}.{}.{}", reversed(&kind.group), version.name, kind.kind)
}

pub(super) fn list_name_of(kind: &Kind, version: &KindVersion) -> String {
    format!(
        "{}.{}.{}",
        reversed(&kind.group),
        version.name,
        kind.list_kind
    )
}

pub(super) fn reference(name: &str) -> String {
    format!("#/components/schemas/{name}")
}

pub(super) fn gvk(kind: &Kind, version: &str, name: &str) -> Value {
    json!({ "group": &*kind.group, "version": version, "kind": name })
}

fn reversed(group: &str) -> String {
    let mut parts: Vec<&str> = group.split('.').collect();
    parts.reverse();
    parts.join(".")
}

fn served<'a>(
    kinds: &'a Kinds,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = (&'a Kind, &'a KindVersion)> {
    let custom = kinds.of_group(group).filter(|kind| kind.is_custom());
    custom.filter_map(move |kind| Some((&**kind, kind.version(version)?)))
}

/// Adds the types of `x-kubernetes-int-or-string` for clients without support of the extension. The
/// depth is limited by the JSON parser.
fn add_int_or_string(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("x-kubernetes-int-or-string") == Some(&json!(true)) {
                fields
                    .entry("anyOf")
                    .or_insert_with(|| json!([{ "type": "integer" }, { "type": "string" }]));
            }
            fields.values_mut().for_each(add_int_or_string);
        }
        Value::Array(items) => items.iter_mut().for_each(add_int_or_string),
        _ => {}
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use kopf_sandbox_kinds::builtin::builtin;
    use kopf_sandbox_schema::kind::{Origin, Subresource};
    use kopf_sandbox_schema::schema::Structural;

    use super::*;

    pub(in crate::openapi) fn gadget() -> Kind {
        let raw = json!({
            "type": "object",
            "required": ["spec"],
            "properties": { "spec": { "type": "object", "properties": {
                "size": { "x-kubernetes-int-or-string": true },
            } } },
        });
        let text = |text: &str| text.to_owned();
        Kind {
            terminating: false,
            conversion_webhook: None,
            group: Arc::from("x.example.com"),
            kind: Arc::from("Gadget"),
            list_kind: Arc::from("GadgetList"),
            plural: Arc::from("gadgets"),
            singular: Arc::from("gadget"),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            versions: vec![KindVersion {
                name: Arc::from("v1"),
                verbs: vec![text("get")],
                subresources: vec![Subresource {
                    name: text("scale"),
                    group: text("autoscaling"),
                    version: text("v1"),
                    kind: text("Scale"),
                    verbs: vec![text("get"), text("patch"), text("update")],
                }],
                schema: Some(Arc::new(Structural::compile(&raw).unwrap())),
                columns: Vec::new(),
                scale: None,
                selectable_fields: vec![text(".spec.size")],
                deprecation_warning: None,
            }],
            storage_version: Arc::from("v1"),
            origin: Origin::Custom {
                crd: Arc::from("gadgets.x.example.com"),
                born: 1,
            },
        }
    }

    /// Collects all references of a document.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) => {
                found.extend(
                    fields
                        .get("$ref")
                        .and_then(Value::as_str)
                        .map(str::to_owned),
                );
                fields.values().for_each(|value| references(value, found));
            }
            Value::Array(items) => items.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }

    #[test]
    fn document_has_all_kinds() {
        let mut kinds = builtin();
        kinds.insert(gadget());
        let document = custom_document(&kinds, "x.example.com", "v1");
        let schema = &document["components"]["schemas"]["com.example.x.v1.Gadget"];
        assert_eq!(
            schema["x-kubernetes-group-version-kind"],
            json!([{ "group": "x.example.com", "version": "v1", "kind": "Gadget" }])
        );
        assert_eq!(schema["required"], json!(["spec"]));
        for field in ["apiVersion", "kind", "metadata"] {
            assert!(
                schema["properties"][field]["description"].is_string(),
                "{field}"
            );
        }
        assert_eq!(
            schema["properties"]["metadata"]["allOf"][0]["$ref"],
            reference(&format!("{META}.ObjectMeta"))
        );
        assert!(schema["properties"]["spec"]["properties"]["size"]["anyOf"].is_array());
        assert_eq!(
            schema["x-kubernetes-selectable-fields"][0]["fieldPath"],
            "spec.size"
        );
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(!found.is_empty());
        for reference in found {
            let pointer = reference.trim_start_matches('#');
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn writes_declare_the_parameters_of_kubectl() {
        let mut kinds = builtin();
        kinds.insert(gadget());
        let document = custom_document(&kinds, "x.example.com", "v1");
        let base = "/apis/x.example.com/v1/namespaces/{namespace}/gadgets";
        for (path, method) in [
            (base.to_owned(), "post"),
            (format!("{base}/{{name}}"), "put"),
            (format!("{base}/{{name}}"), "patch"),
            (format!("{base}/{{name}}/scale"), "patch"),
        ] {
            let operation = &document["paths"][&path][method];
            let parameters = operation["parameters"].as_array().unwrap();
            for name in ["dryRun", "fieldManager", "fieldValidation"] {
                assert!(
                    parameters.iter().any(|it| it["name"] == name),
                    "{path} {method} {name}"
                );
            }
        }
        let patch = &document["paths"][&format!("{base}/{{name}}")]["patch"];
        let types = patch["requestBody"]["content"].as_object().unwrap();
        assert!(!types.contains_key("application/strategic-merge-patch+json"));
        assert!(document["paths"]["/apis/x.example.com/v1/gadgets"]["get"].is_object());
    }
}
