//! Resources that are known without a cluster: the built-in ones, and those of CRDs.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::resource::Resource;

/// The stable built-in resources of Kubernetes that can be watched, from the discovery of a server.
/// Columns: group, version, plural, kind, singular, short names, categories, subresources, scope, and
/// `preferred` for the preferred version of the group.
const BUILTIN: &str = include_str!("builtin.tsv");

const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// Returns the built-in resources of Kubernetes.
pub fn builtin_resources() -> Vec<Resource> {
    BUILTIN.lines().filter_map(builtin).collect()
}

fn builtin(line: &str) -> Option<Resource> {
    let columns: Vec<&str> = line.split('\t').collect();
    let &[
        group,
        version,
        plural,
        kind,
        singular,
        shortcuts,
        categories,
        subresources,
        scope,
        preferred,
    ] = columns.as_slice()
    else {
        return None;
    };
    let names = |column: &str| -> BTreeSet<String> {
        let names = column.split(',').filter(|name| !name.is_empty());
        names.map(str::to_owned).collect()
    };
    Some(Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        kind: kind.to_owned(),
        singular: singular.to_owned(),
        shortcuts: names(shortcuts),
        categories: names(categories),
        subresources: names(subresources),
        verbs: VERBS.map(str::to_owned).into(),
        namespaced: scope == "Namespaced",
        preferred: !preferred.is_empty(),
    })
}

/// Returns the resources of a CRD, one per served version. All of them count as preferred, since
/// permissions do not depend on versions. Empty if the object is not a CRD.
///
/// ```
/// use kopf_core::rights::resources_of_definition;
/// use serde_json::json;
///
/// let definition = json!({"kind": "CustomResourceDefinition", "spec": {
///     "group": "kopf.dev", "scope": "Namespaced",
///     "names": {"plural": "kopfexamples", "kind": "KopfExample"},
///     "versions": [{"name": "v1", "served": true, "subresources": {"status": {}}}]}});
/// let resources = resources_of_definition(&definition);
/// assert_eq!(resources[0].to_string(), "kopfexamples.v1.kopf.dev");
/// assert!(resources[0].has_status());
/// ```
pub fn resources_of_definition(definition: &Value) -> Vec<Resource> {
    let spec = &definition["spec"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let names = |value: &Value| -> BTreeSet<String> {
        let names = value.as_array().into_iter().flatten();
        names.map(text).collect()
    };
    if definition["kind"] != "CustomResourceDefinition" {
        return Vec::new();
    }
    let versions = spec["versions"].as_array().into_iter().flatten();
    let served = versions.filter(|version| version["served"] != false);
    served
        .map(|version| {
            let subresources = version["subresources"].as_object().into_iter().flatten();
            let kind = text(&spec["names"]["kind"]);
            let singular = match text(&spec["names"]["singular"]) {
                singular if singular.is_empty() => kind.to_lowercase(),
                singular => singular,
            };
            Resource {
                group: text(&spec["group"]),
                version: text(&version["name"]),
                plural: text(&spec["names"]["plural"]),
                singular,
                kind,
                shortcuts: names(&spec["names"]["shortNames"]),
                categories: names(&spec["names"]["categories"]),
                subresources: subresources.map(|(name, _)| name.clone()).collect(),
                verbs: VERBS.map(str::to_owned).into(),
                namespaced: spec["scope"] != "Cluster",
                preferred: true,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_resource() {
        let resources = builtin_resources();
        assert_eq!(resources.len(), BUILTIN.lines().count());
        let pods = resources.iter().find(|one| one.plural == "pods").unwrap();
        assert!(pods.namespaced && pods.preferred && pods.has_status());
        assert!(pods.shortcuts.contains("po") && pods.categories.contains("all"));
        let nodes = resources.iter().find(|one| one.plural == "nodes").unwrap();
        assert!(!nodes.namespaced);
    }

    #[test]
    fn versions_that_are_not_served_are_no_resources() {
        let definition = json!({"kind": "CustomResourceDefinition", "spec": {
            "group": "g", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": false}, {"name": "v2", "served": true}]}});
        let resources = resources_of_definition(&definition);
        assert_eq!(resources.len(), 1);
        assert_eq!(resources[0].to_string(), "things.v2.g");
        assert!(!resources[0].namespaced);
        assert_eq!(resources[0].singular, "thing");
        assert!(resources_of_definition(&json!({"kind": "Pod"})).is_empty());
    }
}
