//! Paths and operations of custom resources in OpenAPI.
//!
//! Clients read the supported parameters here: kubectl sends `fieldValidation` and strategic merge
//! patches only to operations that declare them.

use kopf_sandbox_schema::kind::{Kind, KindVersion};
use serde_json::{Map, Value, json};

use super::custom::{gvk, list_name_of, name_of, reference};

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const WRITE: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
];
const PATCH: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("fieldManager", "string"),
    ("fieldValidation", "string"),
    ("force", "boolean"),
];
const DELETE: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
const LIST: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];

/// Adds the paths of one version of a kind.
pub(super) fn add(paths: &mut Map<String, Value>, kind: &Kind, version: &KindVersion) {
    let root = format!("/apis/{}/{}", kind.group, version.name);
    let own = name_of(kind, version);
    let list = list_name_of(kind, version);
    let operation = |action: &str, parameters: &[(&str, &str)], body: Value, response: &str| {
        let mut operation = operation(kind, version, action, response);
        operation["parameters"] = query(parameters).into();
        if !body.is_null() {
            operation["requestBody"] = body;
        }
        operation
    };
    let status = format!("{META}.Status");
    let options = json!({ "content": json_content(&format!("{META}.DeleteOptions")) });
    let collection = if kind.namespaced {
        let all = json!({ "get": operation("list", LIST, Value::Null, &list) });
        paths.insert(format!("{root}/{}", kind.plural), all);
        format!("{root}/namespaces/{{namespace}}/{}", kind.plural)
    } else {
        format!("{root}/{}", kind.plural)
    };
    paths.insert(
        collection.clone(),
        json!({
            "get": operation("list", LIST, Value::Null, &list),
            "post": operation("post", WRITE, body(&own), &own),
            "delete": operation("deletecollection", LIST, options.clone(), &status),
            "parameters": path_parameters(kind, false),
        }),
    );
    let single = format!("{collection}/{{name}}");
    paths.insert(
        single.clone(),
        json!({
            "get": operation("get", &[("resourceVersion", "string")], Value::Null, &own),
            "put": operation("put", WRITE, body(&own), &own),
            "patch": operation("patch", PATCH, patch_body(), &own),
            "delete": operation("delete", DELETE, options, &status),
            "parameters": path_parameters(kind, true),
        }),
    );
    for sub in &version.subresources {
        let schema = match sub.kind.as_str() {
            "Scale" => "io.k8s.api.autoscaling.v1.Scale",
            _ => &own,
        };
        paths.insert(
            format!("{single}/{}", sub.name),
            json!({
                "get": operation("get", &[("resourceVersion", "string")], Value::Null, schema),
                "put": operation("put", WRITE, body(schema), schema),
                "patch": operation("patch", PATCH, patch_body(), schema),
                "parameters": path_parameters(kind, true),
            }),
        );
    }
}

/// Returns an operation without parameters and a body.
fn operation(kind: &Kind, version: &KindVersion, action: &str, response: &str) -> Value {
    json!({
        "tags": [tag(kind, version)],
        "operationId": format!("{action}-{}-{}-{}", kind.group, version.name, kind.plural),
        "responses": { "200": { "description": "OK", "content": json_content(response) } },
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": gvk(kind, &version.name, &kind.kind),
    })
}

fn tag(kind: &Kind, version: &KindVersion) -> String {
    format!("{}_{}", kind.group.replace('.', "_"), version.name)
}

fn query(parameters: &[(&str, &str)]) -> Vec<Value> {
    let query = parameters.iter().map(|(name, kind)| {
        json!({ "name": name, "in": "query", "schema": { "type": kind, "uniqueItems": true } })
    });
    query.collect()
}

fn path_parameters(kind: &Kind, single: bool) -> Vec<Value> {
    let mut names = Vec::new();
    names.extend(single.then_some("name"));
    names.extend(kind.namespaced.then_some("namespace"));
    let parameters = names.into_iter().map(|name| {
        let schema = json!({ "type": "string", "uniqueItems": true });
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    });
    parameters.collect()
}

fn json_content(schema: &str) -> Value {
    json!({ "application/json": { "schema": { "$ref": reference(schema) } } })
}

fn body(schema: &str) -> Value {
    json!({ "content": json_content(schema), "required": true })
}

/// Returns the request body of patches. Custom resources have no merge keys, so strategic merge
/// patches are not among them.
fn patch_body() -> Value {
    let patch = json!({ "schema": { "$ref": reference(&format!("{META}.Patch")) } });
    let content: Map<String, Value> = [
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
    ]
    .iter()
    .map(|&media_type| (media_type.to_owned(), patch.clone()))
    .collect();
    json!({ "content": content, "required": true })
}
