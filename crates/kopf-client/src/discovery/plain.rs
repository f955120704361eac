//! Legacy discovery: one document for each version of each group.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use kopf_core::resource::Resource;
use serde::Deserialize;

use super::{Groups as Wanted, Part, Scan, document, singular};
use crate::client::Client;
use crate::error::Error;
use crate::request::Call;

/// Maximum number of concurrent requests.
const AT_ONCE: usize = 16;

/// Maximum number of attempts per group. A group whose server is down must not delay the others: it
/// is retried later.
const ATTEMPTS: usize = 3;

#[derive(Deserialize)]
pub(super) struct Versions {
    #[serde(default)]
    versions: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct Groups {
    #[serde(default)]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: String,
    #[serde(default)]
    versions: Vec<GroupVersion>,
    #[serde(default)]
    preferred_version: Option<GroupVersion>,
}

#[derive(Deserialize)]
struct GroupVersion {
    #[serde(default)]
    version: String,
}

#[derive(Deserialize)]
struct Resources {
    #[serde(default)]
    resources: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    name: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    singular_name: String,
    #[serde(default)]
    namespaced: bool,
    #[serde(default)]
    verbs: Option<BTreeSet<String>>,
    #[serde(default)]
    short_names: Option<BTreeSet<String>>,
    #[serde(default)]
    categories: Option<BTreeSet<String>>,
}

impl Versions {
    pub(super) fn versions(self) -> impl Iterator<Item = Part> {
        self.versions.into_iter().map(|version| Part {
            group: String::new(),
            version,
            preferred: true,
        })
    }
}

impl Groups {
    pub(super) fn versions(self, wanted: &Wanted) -> Vec<Part> {
        let mut found = Vec::new();
        for group in self.groups {
            if !wanted.contain(&group.name) {
                continue;
            }
            let preferred = group.preferred_version.map(|preferred| preferred.version);
            for GroupVersion { version } in group.versions {
                found.push(Part {
                    group: group.name.clone(),
                    preferred: Some(&version) == preferred.as_ref(),
                    version,
                });
            }
        }
        found
    }
}

impl Resources {
    fn sort_out(self, version: &Part) -> Vec<Resource> {
        let mut subresources = BTreeMap::<String, BTreeSet<String>>::new();
        let mut entries = Vec::new();
        for entry in self.resources {
            match entry.name.split_once('/') {
                None => entries.push(entry),
                Some((owner, subresource)) => {
                    let of_owner = subresources.entry(owner.to_owned()).or_default();
                    of_owner.insert(subresource.to_owned());
                }
            }
        }
        entries
            .into_iter()
            .map(|entry| Resource {
                group: version.group.clone(),
                version: version.version.clone(),
                subresources: subresources.remove(&entry.name).unwrap_or_default(),
                plural: entry.name,
                singular: singular(entry.singular_name, &entry.kind),
                kind: entry.kind,
                shortcuts: entry.short_names.unwrap_or_default(),
                categories: entry.categories.unwrap_or_default(),
                verbs: entry.verbs.unwrap_or_default(),
                namespaced: entry.namespaced,
                preferred: version.preferred,
            })
            .collect()
    }
}

/// Requests single versions concurrently, and adds the results in their order.
pub(super) async fn ask(client: &Client, versions: Vec<Part>, scan: &mut Scan) {
    let mut answers = futures::stream::iter(versions)
        .map(|version| async move {
            let found = ask_one(client, &version).await;
            (version, found)
        })
        .buffered(AT_ONCE);
    while let Some((version, found)) = answers.next().await {
        match found {
            Ok(resources) => scan.resources.extend(resources),
            // It was removed since it was listed.
            Err(error) if error.is_not_found() => {}
            Err(error) => scan.failed.push((version.name(), error)),
        }
    }
}

async fn ask_one(client: &Client, version: &Part) -> Result<Vec<Resource>, Error> {
    let path = version.path();
    let response = client
        .ask(Call::get(path.as_str()).at_most(ATTEMPTS))
        .await?;
    let resources: Resources = document(&path, &response)?;
    Ok(resources.sort_out(version))
}
