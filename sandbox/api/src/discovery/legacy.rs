//! Legacy discovery: a document per group and version.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kopf_sandbox_schema::kind::{Kind, KindVersion, Kinds};
use serde_json::{Value, json};

use super::groups::named_groups;

/// Hashes of storage versions of built-in resources, by document path and resource. They are opaque
/// to clients, so they are recorded instead of computed.
static HASHES: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let text = kopf_sandbox_schema::recorded::LEGACY_DISCOVERY;
    let recorded: BTreeMap<String, Value> =
        serde_json::from_str(text).expect("the recorded discovery is part of the build");
    let mut hashes = BTreeMap::new();
    for (path, document) in &recorded {
        let resources = document.get("resources").and_then(Value::as_array);
        for resource in resources.into_iter().flatten() {
            let field = |name: &str| resource.get(name).and_then(Value::as_str);
            if let (Some(name), Some(hash)) = (field("name"), field("storageVersionHash")) {
                hashes.insert(format!("{path}/{name}"), hash.to_owned());
            }
        }
    }
    hashes
});

/// Returns the response of `/api`. `address` is the address of the server.
pub fn api_versions(kinds: &Kinds, address: &str) -> Value {
    json!({
        "kind": "APIVersions",
        "versions": kinds.versions_of_group("").iter().map(|version| &**version).collect::<Vec<_>>(),
        "serverAddressByClientCIDRs": [{ "clientCIDR": "0.0.0.0/0", "serverAddress": address }],
    })
}

/// Returns the response of `/apis`.
pub fn api_group_list(kinds: &Kinds) -> Value {
    let groups: Vec<Value> = named_groups(kinds)
        .iter()
        .filter_map(|name| group(kinds, name))
        .collect();
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

/// Returns the response of `/apis/GROUP`, or `None` if there is no such group.
pub fn api_group(kinds: &Kinds, name: &str) -> Option<Value> {
    let mut document = group(kinds, name).filter(|_| !name.is_empty())?;
    let fields = document.as_object_mut()?;
    fields.insert("kind".to_owned(), json!("APIGroup"));
    fields.insert("apiVersion".to_owned(), json!("v1"));
    Some(document)
}

/// Returns the response of `/api/VERSION` (the group is empty) or `/apis/GROUP/VERSION`, or `None`
/// if it is not served.
pub fn api_resource_list(kinds: &Kinds, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    for kind in kinds.of_group(group) {
        if let Some(version) = kind.version(version) {
            resources.push(resource(kind, version));
            resources.extend(version.subresources.iter().map(|sub| {
                let mut document = json!({
                    "name": format!("{}/{}", kind.plural, sub.name),
                    "singularName": "",
                    "namespaced": kind.namespaced,
                    "kind": sub.kind,
                    "verbs": sub.verbs,
                });
                let own = sub.group == *kind.group && sub.version == *version.name;
                if let Some(document) = document.as_object_mut().filter(|_| !own) {
                    document.insert("group".to_owned(), json!(sub.group));
                    document.insert("version".to_owned(), json!(sub.version));
                }
                document
            }));
        }
    }
    if resources.is_empty() {
        return None;
    }
    Some(match group {
        // The document of the core group has no `apiVersion`, as on a real server.
        "" => json!({ "kind": "APIResourceList", "groupVersion": version, "resources": resources }),
        _ => json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": format!("{group}/{version}"),
            "resources": resources,
        }),
    })
}

fn group(kinds: &Kinds, name: &str) -> Option<Value> {
    let versions: Vec<Value> = kinds
        .versions_of_group(name)
        .iter()
        .map(
            |version| json!({ "groupVersion": format!("{name}/{version}"), "version": &**version }),
        )
        .collect();
    let preferred = versions.first()?;
    Some(json!({ "name": name, "versions": versions, "preferredVersion": preferred }))
}

/// Returns the hash that identifies the storage version: the first 8 bytes of the SHA-256 of
/// `group/version/kind`, in Base64.
fn storage_version_hash(kind: &Kind) -> String {
    let text = format!("{}/{}/{}", kind.group, kind.storage_version, kind.kind);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    STANDARD.encode(digest.as_ref().get(..8).unwrap_or_default())
}

fn resource(kind: &Kind, version: &KindVersion) -> Value {
    let mut document = json!({
        "name": &*kind.plural,
        "singularName": &*kind.singular,
        "namespaced": kind.namespaced,
        "kind": &*kind.kind,
        "verbs": version.verbs,
    });
    let prefix = if kind.group.is_empty() {
        "/api"
    } else {
        "/apis"
    };
    let path = format!(
        "{prefix}/{}/{}",
        kind.api_version(&version.name),
        kind.plural
    );
    let hash = if kind.is_custom() {
        Some(storage_version_hash(kind))
    } else {
        HASHES.get(&path).cloned()
    };
    let optional = [
        ("shortNames", json!(kind.short_names)),
        ("categories", json!(kind.categories)),
        (
            "storageVersionHash",
            hash.map_or_else(|| json!([]), |hash| json!(hash)),
        ),
    ];
    if let Some(document) = document.as_object_mut() {
        let given = optional
            .into_iter()
            .filter(|(_, value)| *value != json!([]));
        document.extend(given.map(|(name, value)| (name.to_owned(), value)));
    }
    document
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use kopf_sandbox_kinds::builtin::builtin;
    use kopf_sandbox_schema::kind::{Origin, Subresource};

    use super::*;

    pub(in crate::discovery) fn custom_kind(group: &str, versions: &[&str]) -> Kind {
        let text = |text: &str| text.to_owned();
        let versions = versions.iter().map(|name| KindVersion {
            name: Arc::from(*name),
            verbs: vec![text("get"), text("list")],
            subresources: vec![Subresource {
                name: text("scale"),
                group: text("autoscaling"),
                version: text("v1"),
                kind: text("Scale"),
                verbs: vec![text("get"), text("patch"), text("update")],
            }],
            schema: None,
            columns: Vec::new(),
            scale: None,
            selectable_fields: Vec::new(),
            deprecation_warning: None,
        });
        Kind {
            terminating: false,
            conversion_webhook: None,
            group: Arc::from(group),
            kind: Arc::from("Gadget"),
            list_kind: Arc::from("GadgetList"),
            plural: Arc::from("gadgets"),
            singular: Arc::from("gadget"),
            short_names: vec![text("gd")],
            categories: Vec::new(),
            namespaced: true,
            versions: versions.collect(),
            storage_version: Arc::from("v1"),
            origin: Origin::Custom {
                crd: Arc::from(format!("gadgets.{group}")),
                born: 1,
            },
        }
    }

    #[test]
    fn documents_match_a_real_server() {
        let text = kopf_sandbox_schema::recorded::LEGACY_DISCOVERY;
        let recorded: BTreeMap<String, Value> = serde_json::from_str(text).unwrap();
        let kinds = builtin();
        for (path, expected) in &recorded {
            let parts: Vec<&str> = path.split('/').skip(1).collect();
            let document = match parts.as_slice() {
                ["api"] => Some(api_versions(&kinds, "127.0.0.1:6443")),
                ["apis"] => Some(api_group_list(&kinds)),
                ["api", version] => api_resource_list(&kinds, "", version),
                ["apis", group] => api_group(&kinds, group),
                ["apis", group, version] => api_resource_list(&kinds, group, version),
                _ => None,
            };
            assert_eq!(document.as_ref(), Some(expected), "{path}");
        }
        assert!(recorded.len() > 20);
    }

    #[test]
    fn custom_resources_are_listed_with_their_subresources() {
        let mut kinds = builtin();
        kinds.insert(custom_kind("x.example.com", &["v1"]));
        let document = api_resource_list(&kinds, "x.example.com", "v1").unwrap();
        assert_eq!(document["resources"][0]["name"], "gadgets");
        assert_eq!(document["resources"][1]["name"], "gadgets/scale");
        assert_eq!(document["resources"][1]["group"], "autoscaling");
    }

    #[test]
    fn unserved_versions_have_no_document() {
        let kinds = builtin();
        assert_eq!(api_group(&kinds, "nowhere.example.com"), None);
        assert_eq!(api_group(&kinds, ""), None);
        assert_eq!(api_resource_list(&kinds, "apps", "v9"), None);
    }
}
