//! Discovery: the resources that the cluster serves, with all their names.
//!
//! Newer servers return everything in two documents; on others, every version of every group is
//! requested. Groups that cannot be read (their server is down, or access is forbidden) are
//! reported separately, to be retried later.

mod aggregated;
mod plain;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use kopf_core::resource::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::client::Client;
use crate::error::Error;
use crate::request::Call;

/// The aggregated documents are preferred, the legacy ones are accepted.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                      application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                      application/json";

/// The API groups to discover.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Groups {
    /// All of them.
    All,
    /// Only these; the core group is the empty name.
    Only(BTreeSet<String>),
}

impl Groups {
    /// Returns `true` if the group is selected.
    pub fn contain(&self, group: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(groups) => groups.contains(group),
        }
    }

    fn beyond_core(&self) -> bool {
        match self {
            Self::All => true,
            Self::Only(groups) => groups.iter().any(|group| !group.is_empty()),
        }
    }
}

/// The result of a discovery.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The resources in all their versions, in the order of the server.
    pub resources: Vec<Resource>,
    /// The groups, or versions of groups as `group/version`, that could not be read, with the
    /// errors.
    pub failed: Vec<(String, Error)>,
}

/// The root document.
#[derive(Deserialize)]
#[serde(tag = "kind")]
enum Root {
    #[serde(rename = "APIGroupDiscoveryList")]
    Aggregated(aggregated::Groups),
    #[serde(rename = "APIGroupList")]
    Groups(plain::Groups),
    #[serde(rename = "APIVersions")]
    Core(plain::Versions),
}

/// One version of one group, to be requested separately.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    group: String,
    version: String,
    preferred: bool,
}

impl Part {
    fn path(&self) -> String {
        if self.group.is_empty() {
            format!("/api/{}", self.version)
        } else {
            format!("/apis/{}/{}", self.group, self.version)
        }
    }

    fn name(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// Discovers the resources of the cluster.
///
/// # Errors
///
/// No document can be read. Failures of single groups are in [`Scan::failed`].
pub async fn scan(client: &Client, groups: &Groups) -> Result<Scan, Error> {
    let (core, others) = futures::try_join!(
        root(client, "/api", groups.contain("")),
        root(client, "/apis", groups.beyond_core()),
    )?;
    let mut scan = Scan::default();
    let mut unknown = Vec::new();
    for root in [core, others].into_iter().flatten() {
        match root {
            Root::Aggregated(list) => list.sort_out(groups, &mut scan.resources, &mut unknown),
            Root::Groups(list) => unknown.extend(list.versions(groups)),
            Root::Core(list) => unknown.extend(list.versions()),
        }
    }
    plain::ask(client, unknown, &mut scan).await;
    Ok(scan)
}

async fn root(client: &Client, path: &str, wanted: bool) -> Result<Option<Root>, Error> {
    if !wanted {
        return Ok(None);
    }
    match client.ask(Call::get(path).accepting(ACCEPT)).await {
        Ok(response) => document(path, &response).map(Some),
        // Some servers have only one of the two.
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn document<T: DeserializeOwned>(path: &str, response: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(response).map_err(|error| Error::malformed(path, &error))
}

/// Returns the singular name, derived from the kind if the server omits it.
fn singular(given: String, kind: &str) -> String {
    if given.is_empty() {
        kind.to_lowercase()
    } else {
        given
    }
}
