//! Aggregated discovery: everything in one document (`apidiscovery.k8s.io/v2`).

use kopf_sandbox_schema::kind::{Kind, KindVersion, Kinds};
use serde_json::{Value, json};

use super::groups::named_groups;

/// Returns the response of `/api`.
pub fn aggregated_api(kinds: &Kinds) -> Value {
    list(&[group(kinds, "")])
}

/// Returns the response of `/apis`.
pub fn aggregated_apis(kinds: &Kinds) -> Value {
    let groups: Vec<Value> = named_groups(kinds)
        .iter()
        .map(|name| group(kinds, name))
        .collect();
    list(&groups)
}

fn list(items: &[Value]) -> Value {
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn group(kinds: &Kinds, name: &str) -> Value {
    let versions: Vec<Value> = kinds
        .versions_of_group(name)
        .iter()
        .map(|version| {
            let resources: Vec<Value> = kinds
                .of_group(name)
                .filter_map(|kind| Some(resource(kind, kind.version(version)?)))
                .collect();
            json!({ "version": &**version, "resources": resources, "freshness": "Current" })
        })
        .collect();
    let metadata = if name.is_empty() {
        json!({})
    } else {
        json!({ "name": name })
    };
    json!({ "metadata": metadata, "versions": versions })
}

fn resource(kind: &Kind, version: &KindVersion) -> Value {
    let mut document = json!({
        "resource": &*kind.plural,
        "responseKind": response_kind(kind, version, &kind.group, &version.name, &kind.kind),
        "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": &*kind.singular,
        "verbs": version.verbs,
    });
    let subresources: Vec<Value> = version
        .subresources
        .iter()
        .map(|sub| {
            json!({
                "subresource": sub.name,
                "responseKind": response_kind(kind, version, &sub.group, &sub.version, &sub.kind),
                "verbs": sub.verbs,
            })
        })
        .collect();
    let optional = [
        ("shortNames", json!(kind.short_names)),
        ("categories", json!(kind.categories)),
        ("subresources", json!(subresources)),
    ];
    if let Some(document) = document.as_object_mut() {
        let given = optional
            .into_iter()
            .filter(|(_, value)| *value != json!([]));
        document.extend(given.map(|(name, value)| (name.to_owned(), value)));
    }
    document
}

/// Returns `responseKind`. Built-in kinds omit parts that are equal to those of their resource;
/// custom ones do not.
fn response_kind(
    owner: &Kind,
    owner_version: &KindVersion,
    group: &str,
    version: &str,
    kind: &str,
) -> Value {
    let own = group == &*owner.group && version == &*owner_version.name;
    if own && !owner.is_custom() {
        return json!({ "group": "", "version": "", "kind": kind });
    }
    json!({ "group": group, "version": version, "kind": kind })
}

#[cfg(test)]
mod tests {
    use kopf_sandbox_kinds::builtin::builtin;

    use super::*;
    use crate::discovery::legacy::tests::custom_kind;

    #[test]
    fn documents_match_a_real_server() {
        let recorded: Value =
            serde_json::from_str(kopf_sandbox_schema::recorded::DISCOVERY).unwrap();
        let kinds = builtin();
        assert_eq!(aggregated_api(&kinds), recorded["api"]);
        assert_eq!(aggregated_apis(&kinds), recorded["apis"]);
    }

    #[test]
    fn custom_resources_have_a_full_response_kind() {
        let mut kinds = builtin();
        kinds.insert(custom_kind("x.example.com", &["v1", "v1alpha1"]));
        let document = aggregated_apis(&kinds);
        let group = document["items"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()
            .clone();
        assert_eq!(group["versions"][1]["version"], "v1alpha1");
        assert_eq!(
            group["versions"][0]["resources"][0]["responseKind"],
            json!({ "group": "x.example.com", "version": "v1", "kind": "Gadget" })
        );
        assert_eq!(
            group["versions"][0]["resources"][0]["subresources"][0],
            json!({
                "subresource": "scale",
                "responseKind": { "group": "autoscaling", "version": "v1", "kind": "Scale" },
                "verbs": ["get", "patch", "update"],
            })
        );
    }
}
