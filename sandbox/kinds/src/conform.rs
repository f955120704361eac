//! Conformance of objects to their kinds: known fields only, valid types, defaults.

use kopf_sandbox_schema::kind::Kind;
use kopf_sandbox_schema::typing::{self, Mismatch};
use serde_json::{Value, json};

use crate::conversion;

/// Conforms an applied object, in which nulls of custom resources are kept: they are invalid.
pub fn conform_applied(
    kind: &Kind,
    version: &str,
    object: &mut Value,
) -> Result<Vec<String>, Mismatch> {
    match kind
        .version(version)
        .and_then(|version| version.schema.as_ref())
    {
        Some(schema) if kind.is_custom() => {
            let mut unknown = conform_metadata(object)?;
            schema.default_keeping_nulls(object);
            unknown.extend(schema.prune(object));
            Ok(unknown)
        }
        _ => conform(kind, version, object),
    }
}

/// Checks the types of an object, drops unknown fields and sets defaults.
///
/// Returns the paths of the dropped fields. After an error the object is in an unspecified state.
pub fn conform(kind: &Kind, version: &str, object: &mut Value) -> Result<Vec<String>, Mismatch> {
    if let Some(version) = kind.version(version)
        && kind.is_custom()
    {
        let mut unknown = conform_metadata(object)?;
        if let Some(schema) = &version.schema {
            schema.default(object);
            unknown.extend(schema.prune(object));
        }
        return Ok(unknown);
    }
    let types = typing::built_in();
    let Some(root) = types.root(&kind.api_version(version), &kind.kind) else {
        return Ok(Vec::new());
    };
    let checked = types.check(root, std::mem::take(object))?;
    *object = checked.object;
    let scaled_otherwise = conversion::has_other_metrics(kind, version, object);
    types.apply_defaults(root, object);
    if scaled_otherwise && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        // The default applies to autoscalers without any metrics.
        spec.remove(conversion::TARGET_CPU);
    }
    Ok(checked.unknown)
}

/// Conforms the metadata, whose types are the same for all kinds and not in the schemas of custom
/// resources.
fn conform_metadata(object: &mut Value) -> Result<Vec<String>, Mismatch> {
    let types = typing::built_in();
    let Some(root) = types.root("v1", "ConfigMap") else {
        return Ok(Vec::new());
    };
    let Some(metadata) = object.get_mut("metadata") else {
        return Ok(Vec::new());
    };
    let carrier = json!({ "metadata": metadata.take() });
    let mut checked = types.check(root, carrier).map_err(|mut mismatch| {
        mismatch.text = mismatch.text.replace("ObjectMeta.metadata.", "ObjectMeta.");
        mismatch
    })?;
    *metadata = checked
        .object
        .get_mut("metadata")
        .map_or_else(|| json!({}), Value::take);
    Ok(checked.unknown)
}
