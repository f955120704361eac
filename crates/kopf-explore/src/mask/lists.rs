//! The order of lists that are maps or sets by their schema: ports of a Service, containers, variables.

use std::collections::BTreeMap;
use std::sync::Arc;

use kopf_sandbox_schema::fields::{self, Schema};
use serde_json::Value;

/// The schemas of custom kinds. Those of built-in kinds are part of the sandbox.
#[derive(Debug, Clone, Default)]
pub(super) struct Lists {
    /// By `apiVersion`, a space, and the kind.
    custom: Arc<BTreeMap<String, Schema>>,
}

impl Lists {
    /// Returns the schemas of all versions of CRDs. Other objects are passed over.
    pub(super) fn of<'a>(objects: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut custom = BTreeMap::new();
        for crd in objects {
            let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str);
            let (Some(group), Some(kind)) = (text("/spec/group"), text("/spec/names/kind")) else {
                continue;
            };
            let versions = crd.pointer("/spec/versions").and_then(Value::as_array);
            for version in versions.into_iter().flatten() {
                if let Some(name) = version.get("name").and_then(Value::as_str) {
                    let schema = version.pointer("/schema/openAPIV3Schema");
                    let schema = fields::custom(kind, schema);
                    custom.insert(format!("{group}/{name} {kind}"), schema);
                }
            }
        }
        Self {
            custom: Arc::new(custom),
        }
    }

    /// Brings the items of such lists into one order.
    pub(super) fn sort(&self, object: &mut Value) {
        let text = |name: &str| object.get(name).and_then(Value::as_str);
        let (Some(version), Some(kind)) = (text("apiVersion"), text("kind")) else {
            return;
        };
        let custom = self.custom.get(&format!("{version} {kind}"));
        let schema = custom.unwrap_or_else(|| fields::builtin(version));
        let root = schema.root(kind);
        // They are made from the ports of a Service, but atomic.
        let has_ports_of_service = kind == "EndpointSlice";
        fields::sort(schema, root, object);
        if has_ports_of_service && let Some(Value::Array(ports)) = object.get_mut("ports") {
            ports.sort_by_cached_key(Value::to_string);
        }
    }
}
