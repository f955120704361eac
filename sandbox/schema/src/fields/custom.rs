//! Types of custom resources, from the schemas of their CRDs.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize as _;
use serde_json::Value;

use super::builtin::definitions;
use super::openapi::{Converter, Definition};
use super::schema::Schema;

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The definitions that `ObjectMeta` needs.
static META: LazyLock<BTreeMap<String, Definition>> = LazyLock::new(|| {
    let mut found = definitions("scheduling.k8s.io/v1");
    found.retain(|name, _| name.starts_with("io.k8s.apimachinery.pkg.apis.meta.v1."));
    for definition in found.values_mut() {
        definition.kinds.clear();
    }
    found
});

/// Returns the types of a custom resource with this `openAPIV3Schema`.
pub fn custom(kind: &str, schema: Option<&Value>) -> Schema {
    let mut converter = Converter::with_object_meta(OBJECT_META);
    converter.add_named(&META);
    // Without a schema, fields are preserved as they are.
    let parsed = schema.and_then(|schema| Definition::deserialize(schema).ok());
    let mut root = parsed.unwrap_or_default();
    root.of = Some("object".to_owned());
    for (name, definition) in [
        ("apiVersion", Definition::text()),
        ("kind", Definition::text()),
        ("metadata", Definition::reference(OBJECT_META)),
    ] {
        root.properties.insert(name.to_owned(), definition);
    }
    converter.add_root(kind, &root);
    converter.schema
}
