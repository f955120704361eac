//! Discovery: which kinds of objects the cluster serves, with all their names.
//!
//! Newer servers tell everything in two documents; with others, every version of every group is
//! asked for. Groups that cannot be asked (their server is down, or it is forbidden) do not spoil
//! the rest: they are told apart, to be tried again later.

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

/// The newer documents are preferred, the older ones are accepted.
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                      application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,\
                      application/json";

/// Which API groups to look into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Groups {
    /// All of them.
    All,
    /// Only these; the core group is the empty name.
    Only(BTreeSet<String>),
}

impl Groups {
    /// Whether the group is among them.
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

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The kinds in all their versions, in the order of the server.
    pub resources: Vec<Resource>,
    /// The groups, or versions of groups as `group/version`, that could not be looked into, and why.
    pub failed: Vec<(String, Error)>,
}

/// What the root documents can be.
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

/// One version of one group, to be asked for by itself.
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

/// Looks what the cluster serves.
///
/// # Errors
///
/// Only if nothing at all can be found out. Failures of single groups are in [`Scan::failed`].
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
        Ok(answer) => document(path, &answer).map(Some),
        // There are servers with only one of the two.
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn document<T: DeserializeOwned>(path: &str, answer: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(answer).map_err(|error| Error::malformed(path, &error))
}

/// Names of kinds that some servers leave to be guessed.
fn singular(given: String, kind: &str) -> String {
    if given.is_empty() {
        kind.to_lowercase()
    } else {
        given
    }
}
