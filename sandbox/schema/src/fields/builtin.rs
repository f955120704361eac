//! Types of built-in kinds, from the recorded OpenAPI documents.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use kopf_sandbox_store::sync::Mutex;
use serde::Deserialize;

use super::openapi::{Converter, Definition};
use super::schema::Schema;
use crate::recorded;

#[derive(Deserialize)]
struct Document {
    components: Components,
}

#[derive(Deserialize)]
struct Components {
    schemas: BTreeMap<String, Definition>,
}

/// Schemas by `apiVersion`, each parsed when the first such object is written. They live as long as
/// the process and are shared by all sandboxes.
static SCHEMAS: LazyLock<Mutex<BTreeMap<String, &'static Schema>>> = LazyLock::new(Mutex::default);

/// Returns the types of a built-in group version such as `v1` or `apps/v1`.
pub fn builtin(api_version: &str) -> &'static Schema {
    let mut schemas = SCHEMAS.lock();
    if let Some(known) = schemas.get(api_version) {
        return known;
    }
    let mut converter = Converter::default();
    converter.add_named(&definitions(api_version));
    // Bounded by the number of recorded documents.
    let schema: &'static Schema = Box::leak(Box::new(converter.schema));
    schemas.insert(api_version.to_owned(), schema);
    schema
}

/// Returns the definitions of a group version; empty if there is no such document.
pub(super) fn definitions(api_version: &str) -> BTreeMap<String, Definition> {
    let prefix = if api_version.contains('/') {
        "apis"
    } else {
        "api"
    };
    recorded::document(&format!("{prefix}/{api_version}"))
        .and_then(|text| serde_json::from_str::<Document>(text).ok())
        .map(|document| document.components.schemas)
        .unwrap_or_default()
}
