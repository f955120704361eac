//! Default classes of ingresses and volume claims.

use kopf_sandbox_schema::object::meta;
use serde_json::{Value, json};

use super::{child, text};

const DEFAULT_INGRESS_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";
const INGRESS_CLASS: &str = "kubernetes.io/ingress.class";
const DEFAULT_STORAGE_CLASS: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];

/// Sets the default class of an ingress without a class.
pub fn default_ingress_class(ingress: &mut Value, classes: &[Value]) {
    let named = ingress.pointer("/spec/ingressClassName");
    if named.is_some_and(|named| !named.is_null()) || annotation(ingress, INGRESS_CLASS).is_some() {
        return;
    }
    if let Some(class) = newest(classes, &[DEFAULT_INGRESS_CLASS])
        && let Some(spec) = child(ingress, "spec")
    {
        spec.insert("ingressClassName".to_owned(), json!(class));
    }
}

/// Sets the default class of a volume claim without a class. An empty name counts as a class.
pub fn default_storage_class(claim: &mut Value, classes: &[Value]) {
    let named = claim.pointer("/spec/storageClassName");
    if named.is_some_and(|named| !named.is_null())
        || annotation(claim, "volume.beta.kubernetes.io/storage-class").is_some()
    {
        return;
    }
    if let Some(class) = newest(classes, &DEFAULT_STORAGE_CLASS)
        && let Some(spec) = child(claim, "spec")
    {
        spec.insert("storageClassName".to_owned(), json!(class));
    }
}

/// Returns the name of the default class: the newest one; among equal ages, the first by name.
fn newest(classes: &[Value], annotations: &[&str]) -> Option<String> {
    let is_default = |class: &&Value| {
        annotations
            .iter()
            .any(|name| annotation(class, name) == Some("true"))
    };
    let age = |class: &Value| text(class, "/metadata/creationTimestamp").to_owned();
    classes
        .iter()
        .filter(is_default)
        .min_by(|a, b| {
            let newest_first = age(b).cmp(&age(a));
            newest_first.then_with(|| meta::name(a).cmp(meta::name(b)))
        })
        .map(|class| meta::name(class).to_owned())
}

fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object.pointer("/metadata/annotations")?.get(name)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, created: &str, default: &str) -> Value {
        json!({ "metadata": {
            "name": name,
            "creationTimestamp": created,
            "annotations": { DEFAULT_INGRESS_CLASS: default },
        } })
    }

    #[test]
    fn newest_default_class_is_set() {
        let classes = [
            class("old", "2026-01-01T00:00:00Z", "true"),
            class("b", "2026-01-02T00:00:00Z", "true"),
            class("a", "2026-01-02T00:00:00Z", "true"),
            class("newest", "2026-01-03T00:00:00Z", "false"),
        ];
        let mut ingress = json!({ "metadata": {} });
        default_ingress_class(&mut ingress, &classes);
        assert_eq!(ingress["spec"]["ingressClassName"], "a");
    }

    #[test]
    fn named_classes_are_kept() {
        let classes = [class("c", "2026-01-01T00:00:00Z", "true")];
        for mut ingress in [
            json!({ "spec": { "ingressClassName": "mine" } }),
            json!({ "metadata": { "annotations": { INGRESS_CLASS: "mine" } } }),
        ] {
            let before = ingress.clone();
            default_ingress_class(&mut ingress, &classes);
            assert_eq!(ingress, before);
        }
    }
}
