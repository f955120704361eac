//! The document of `/openapi/v2`, for older clients.
//!
//! It contains only definitions: clients read schemas and merge keys from it, and never paths.

use kopf_sandbox_schema::kind::Kinds;
use serde_json::{Map, Value, json};

use super::{custom, recorded};

const REFERENCE: &str = "#/components/schemas/";

/// Returns all definitions, built-in and custom. Parses several megabytes, which takes tens of
/// milliseconds.
pub fn swagger(kinds: &Kinds) -> Value {
    let mut definitions = Map::new();
    for recorded in recorded::documents() {
        let mut document: Value = serde_json::from_slice(recorded.described()).unwrap_or_default();
        let schemas = document
            .pointer_mut("/components/schemas")
            .and_then(Value::as_object_mut);
        definitions.extend(schemas.map(std::mem::take).into_iter().flatten());
    }
    for kind in kinds.iter().filter(|kind| kind.is_custom()) {
        for version in &kind.versions {
            definitions.extend(custom::definitions(kind, version).map(without_open_root));
        }
    }
    definitions.values_mut().for_each(convert);
    let version = crate::discovery::version();
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": version.get("gitVersion") },
        "paths": {},
        "definitions": definitions,
    })
}

/// Reduces a schema that preserves unknown fields at its root to the type and the kinds. Clients of
/// OpenAPI 2 would reject unknown fields otherwise.
fn without_open_root((name, schema): (String, Value)) -> (String, Value) {
    if schema.get("x-kubernetes-preserve-unknown-fields") != Some(&json!(true)) {
        return (name, schema);
    }
    let Value::Object(mut fields) = schema else {
        return (name, schema);
    };
    let kept = ["type", "x-kubernetes-group-version-kind"];
    fields.retain(|field, _| kept.contains(&field.as_str()));
    (name, Value::Object(fields))
}

/// Converts OpenAPI 3 to 2: rewrites references and removes newer keywords. The depth is limited by
/// the JSON parser.
fn convert(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            for unknown in ["anyOf", "oneOf", "not", "nullable"] {
                // A property can have this name. Its value is neither a list nor a boolean.
                if fields
                    .get(unknown)
                    .is_some_and(|it| it.is_array() || it.is_boolean())
                {
                    fields.remove(unknown);
                }
            }
            if let Some(Value::Array(all)) = fields.get_mut("allOf") {
                let reference = all
                    .first_mut()
                    .and_then(|it| it.get_mut("$ref"))
                    .map(Value::take);
                fields.remove("allOf");
                fields.extend(reference.map(|reference| ("$ref".to_owned(), reference)));
            }
            if let Some(Value::String(reference)) = fields.get_mut("$ref")
                && let Some(name) = reference.strip_prefix(REFERENCE)
            {
                *reference = format!("#/definitions/{name}");
            }
            fields.values_mut().for_each(convert);
        }
        Value::Array(items) => items.iter_mut().for_each(convert),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use kopf_sandbox_kinds::builtin::builtin;

    use super::*;

    #[test]
    fn definitions_refer_to_definitions() {
        let mut kinds = builtin();
        kinds.insert(custom::tests::gadget());
        let document = swagger(&kinds);
        assert_eq!(document["swagger"], "2.0");
        let pod = &document["definitions"]["io.k8s.api.core.v1.Pod"];
        assert_eq!(
            pod["properties"]["spec"]["$ref"],
            "#/definitions/io.k8s.api.core.v1.PodSpec"
        );
        assert_eq!(pod["x-kubernetes-group-version-kind"][0]["kind"], "Pod");
        let gadget = &document["definitions"]["com.example.x.v1.Gadget"];
        assert_eq!(
            gadget["properties"]["metadata"]["$ref"],
            "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
        );
        assert!(
            gadget["properties"]["spec"]["properties"]["size"]
                .get("anyOf")
                .is_none()
        );
        assert!(!document.to_string().contains(REFERENCE));
    }
}
