//! The built-in kinds, from the recorded discovery of a real server.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use kopf_sandbox_schema::kind::{Kind, KindVersion, Kinds, Origin, Subresource};
use serde_json::Value;

/// Parsed once per process, because tests start many sandboxes.
static BUILTIN: LazyLock<Kinds> = LazyLock::new(|| {
    let text = kopf_sandbox_schema::recorded::DISCOVERY;
    let recorded = serde_json::from_str(text).expect("the recorded discovery is part of the build");
    from_discovery(&recorded)
});

/// Returns all built-in kinds. Kinds are shared, so a copy is cheap.
pub fn builtin() -> Kinds {
    BUILTIN.clone()
}

fn from_discovery(recorded: &Value) -> Kinds {
    let mut kinds = Kinds::default();
    for list in ["api", "apis"] {
        for group in items(recorded.get(list), "items") {
            let name = group
                .pointer("/metadata/name")
                .and_then(Value::as_str)
                .unwrap_or_default();
            for kind in kinds_of_group(name, group) {
                kinds.insert(kind);
            }
        }
    }
    kinds
}

/// Returns the kinds of a group. A kind with several versions is one kind.
fn kinds_of_group(group: &str, document: &Value) -> Vec<Kind> {
    let mut found: BTreeMap<&str, Kind> = BTreeMap::new();
    for version in items(Some(document), "versions") {
        let version_name = text(version, "version");
        for resource in items(Some(version), "resources") {
            let plural = text(resource, "resource");
            let kind = resource
                .get("responseKind")
                .map(|of| text(of, "kind"))
                .unwrap_or_default();
            let entry = found.entry(plural).or_insert_with(|| Kind {
                group: Arc::from(group),
                kind: Arc::from(kind),
                list_kind: Arc::from(format!("{kind}List")),
                plural: Arc::from(plural),
                singular: Arc::from(text(resource, "singularResource")),
                short_names: texts(resource, "shortNames"),
                categories: texts(resource, "categories"),
                terminating: false,
                conversion_webhook: None,
                namespaced: text(resource, "scope") == "Namespaced",
                versions: Vec::new(),
                // The preferred version comes first and is the storage version.
                storage_version: Arc::from(version_name),
                origin: Origin::BuiltIn,
            });
            entry.versions.push(KindVersion {
                name: Arc::from(version_name),
                verbs: texts(resource, "verbs"),
                subresources: items(Some(resource), "subresources")
                    .map(|sub| subresource(sub, group, version_name))
                    .collect(),
                schema: None,
                columns: Vec::new(),
                scale: None,
                selectable_fields: Vec::new(),
                deprecation_warning: deprecation_warning(group, version_name, kind),
            });
        }
    }
    found.into_values().collect()
}

/// Reads a subresource. Group and version are recorded only if they differ from those of the
/// resource.
fn subresource(document: &Value, group: &str, version: &str) -> Subresource {
    let kind = document.get("responseKind").unwrap_or(&Value::Null);
    let own = text(kind, "version").is_empty();
    Subresource {
        name: text(document, "subresource").to_owned(),
        group: if own { group } else { text(kind, "group") }.to_owned(),
        version: if own { version } else { text(kind, "version") }.to_owned(),
        kind: text(kind, "kind").to_owned(),
        verbs: texts(document, "verbs"),
    }
}

/// Returns the deprecation warning of a version. Discovery lacks warnings: they are response
/// headers.
fn deprecation_warning(group: &str, version: &str, kind: &str) -> Option<String> {
    match (group, version, kind) {
        ("", "v1", "Endpoints") => Some(
            "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"
                .to_owned(),
        ),
        ("", "v1", "ComponentStatus") => {
            Some("v1 ComponentStatus is deprecated in v1.19+".to_owned())
        }
        _ => None,
    }
}

fn items<'a>(value: Option<&'a Value>, field: &str) -> impl Iterator<Item = &'a Value> {
    value
        .and_then(|value| value.get(field))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn texts(value: &Value, field: &str) -> Vec<String> {
    items(Some(value), field)
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_kinds_are_built_in() {
        let kinds = builtin();
        let pods = kinds.by_plural("", "pods").unwrap();
        assert_eq!(
            (&*pods.kind, &*pods.list_kind, &*pods.singular),
            ("Pod", "PodList", "pod")
        );
        assert_eq!(pods.short_names, ["po"]);
        assert!(pods.namespaced && !kinds.by_kind("", "Node").unwrap().namespaced);
        let version = pods.version("v1").unwrap();
        assert_eq!(
            version.subresource("status").unwrap().verbs,
            ["get", "patch", "update"]
        );
        assert_eq!(version.subresource("eviction").unwrap().group, "policy");
        let deployments = kinds.by_plural("apps", "deployments").unwrap();
        let scale = deployments
            .version("v1")
            .unwrap()
            .subresource("scale")
            .unwrap();
        assert_eq!(
            (&*scale.group, &*scale.version, &*scale.kind),
            ("autoscaling", "v1", "Scale")
        );
    }

    #[test]
    fn kinds_of_several_versions_are_stored_in_the_preferred_one() {
        let kinds = builtin();
        let scalers = kinds
            .by_kind("autoscaling", "HorizontalPodAutoscaler")
            .unwrap();
        let versions: Vec<&str> = scalers.versions.iter().map(|it| &*it.name).collect();
        assert_eq!(versions, ["v2", "v1"]);
        assert_eq!(&*scalers.storage_version, "v2");
        assert!(kinds.by_kind("", "Event").is_some());
        assert!(kinds.by_kind("events.k8s.io", "Event").is_some());
    }

    #[test]
    fn core_group_comes_first() {
        assert_eq!(builtin().groups().next().map(|group| &**group), Some(""));
    }
}
