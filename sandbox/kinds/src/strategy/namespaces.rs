//! Namespaces.

use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::{NameRule, Selectable, Strategy};
use crate::rules::data;

/// The rules of the kind.
pub(super) const STRATEGY: Strategy = Strategy {
    names: NameRule::Label,
    check: data::namespace,
    default_new,
    complete_new,
    complete_changed,
    selectable: Selectable::of(&["status.phase"], false),
    ..Strategy::DEFAULT
};

/// The finalizer of the namespace controller in `spec.finalizers`.
const KUBERNETES: &str = "kubernetes";

fn default_new(namespace: &mut Value) {
    let name = meta::name(namespace).to_owned();
    if !name.is_empty() {
        label_with_name(namespace, &name);
    }
}

fn complete_new(namespace: &mut Value) {
    let name = meta::name(namespace).to_owned();
    label_with_name(namespace, &name);
    let finalizers = meta::entry(namespace, "spec").entry("finalizers");
    let finalizers = finalizers.or_insert_with(|| json!([]));
    if let Some(finalizers) = finalizers.as_array_mut()
        && !finalizers.contains(&json!(KUBERNETES))
    {
        finalizers.push(json!(KUBERNETES));
    }
    meta::entry(namespace, "status").insert("phase".to_owned(), json!("Active"));
}

/// Restores the label, and the spec unless the request finalizes the namespace.
fn complete_changed(subresource: Option<&str>, current: &Value, namespace: &mut Value) {
    label_with_name(namespace, meta::name(current));
    if subresource != Some("finalize") {
        let spec = current.get("spec").cloned();
        namespace["spec"] = spec.unwrap_or_else(|| json!({}));
    }
}

/// Sets the label that contains the name.
fn label_with_name(namespace: &mut Value, name: &str) {
    let metadata = meta::metadata(namespace);
    let labels = metadata.entry("labels").or_insert_with(|| json!({}));
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("kubernetes.io/metadata.name".to_owned(), json!(name));
    }
}
