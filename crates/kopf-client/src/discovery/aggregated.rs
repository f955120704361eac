//! Aggregated discovery: everything in one document.

use std::collections::BTreeSet;

use kopf_core::resource::Resource;
use serde::Deserialize;

use super::{Groups as Wanted, Part, singular};

#[derive(Deserialize)]
pub(super) struct Groups {
    #[serde(default)]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    versions: Vec<GroupVersion>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: Option<String>,
}

#[derive(Deserialize)]
struct GroupVersion {
    version: String,
    #[serde(default)]
    resources: Vec<Entry>,
    #[serde(default)]
    freshness: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    resource: String,
    #[serde(default)]
    response_kind: Option<Kind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    singular_resource: String,
    #[serde(default)]
    verbs: BTreeSet<String>,
    #[serde(default)]
    short_names: BTreeSet<String>,
    #[serde(default)]
    categories: BTreeSet<String>,
    #[serde(default)]
    subresources: Vec<Subresource>,
}

#[derive(Default, Deserialize)]
struct Kind {
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
struct Subresource {
    subresource: String,
}

impl Groups {
    /// Adds the resources of the selected groups to one list, and stale groups, whose servers were
    /// unreachable, to the other.
    pub(super) fn sort_out(
        self,
        wanted: &Wanted,
        known: &mut Vec<Resource>,
        unknown: &mut Vec<Part>,
    ) {
        for group in self.items {
            let name = group.metadata.name.unwrap_or_default();
            if !wanted.contain(&name) {
                continue;
            }
            // The versions are sorted by preference.
            for (index, listed) in group.versions.into_iter().enumerate() {
                let version = Part {
                    group: name.clone(),
                    version: listed.version,
                    preferred: index == 0 || name.is_empty(),
                };
                if listed.freshness.as_deref() == Some("Stale") {
                    unknown.push(version);
                } else {
                    let entries = listed.resources.into_iter();
                    known.extend(entries.filter_map(|entry| entry.resource(&version)));
                }
            }
        }
    }
}

impl Entry {
    fn resource(self, version: &Part) -> Option<Resource> {
        // Without a kind, it is only a parent of subresources.
        let kind = self.response_kind.unwrap_or_default().kind;
        (!kind.is_empty()).then(|| Resource {
            group: version.group.clone(),
            version: version.version.clone(),
            plural: self.resource,
            singular: singular(self.singular_resource, &kind),
            kind,
            shortcuts: self.short_names,
            categories: self.categories,
            subresources: self
                .subresources
                .into_iter()
                .map(|subresource| subresource.subresource)
                .collect(),
            verbs: self.verbs,
            namespaced: self.scope == "Namespaced",
            preferred: version.preferred,
        })
    }
}
