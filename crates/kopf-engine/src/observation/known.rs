//! What is known of the kinds of the cluster, and of what has to be looked at again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kopf_client::Error;
use kopf_client::discovery::{Groups, Scan};
use kopf_client::watching::Item;
use kopf_core::cause::EventType;
use kopf_core::resource::Resource;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::agenda::Agenda;

/// The name on the agenda for all groups at once; groups are never called so.
const EVERYTHING: &str = "*";

/// Kinds are equal by their names, but here also the details matter.
pub(super) fn is_identical(one: &BTreeSet<Arc<Resource>>, other: &BTreeSet<Arc<Resource>>) -> bool {
    let is_same = |(one, other): (&Arc<Resource>, &Arc<Resource>)| {
        one.kind == other.kind
            && one.singular == other.singular
            && one.shortcuts == other.shortcuts
            && one.categories == other.categories
            && one.subresources == other.subresources
            && one.verbs == other.verbs
            && one.namespaced == other.namespaced
            && one.preferred == other.preferred
    };
    one == other && one.iter().zip(other).all(is_same)
}

/// What is known of the cluster.
#[derive(Debug)]
pub(super) struct Known {
    wanted: Groups,
    groups: BTreeMap<String, BTreeSet<Arc<Resource>>>,
    pub(super) agenda: Agenda,
    /// Whether something could have been missed before definitions are listed the next time.
    is_stale: bool,
}

impl Known {
    pub(super) fn new(wanted: Groups) -> Self {
        Self {
            wanted,
            groups: BTreeMap::new(),
            agenda: Agenda::default(),
            is_stale: false,
        }
    }

    /// All kinds.
    pub(super) fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.values().flatten()
    }

    /// What to look at now, if anything.
    pub(super) fn due(&self) -> Option<Groups> {
        let due = self.agenda.due(Instant::now());
        if due.contains(EVERYTHING) {
            Some(self.wanted.clone())
        } else {
            (!due.is_empty()).then_some(Groups::Only(due))
        }
    }

    /// Takes over what was found in these groups.
    pub(super) fn take(&mut self, groups: &Groups, scan: Result<Scan, Error>) {
        let now = Instant::now();
        let Scan {
            resources, failed, ..
        } = match scan {
            Ok(scan) => scan,
            Err(error) => return self.fail(&error),
        };
        let mut found: BTreeMap<String, BTreeSet<Arc<Resource>>> = BTreeMap::new();
        for resource in resources {
            let group = found.entry(resource.group.clone()).or_default();
            group.insert(Arc::new(resource));
        }
        // What could not be asked for is as it was.
        for (part, _) in &failed {
            let (group, version) = group_and_version(part);
            let before = self.groups.get(group).into_iter().flatten();
            let kept =
                before.filter(|known| version.is_none_or(|version| known.version == version));
            found
                .entry(group.to_owned())
                .or_default()
                .extend(kept.cloned());
        }
        let names: BTreeSet<String> = match groups {
            Groups::Only(groups) => groups.clone(),
            Groups::All => self.groups.keys().chain(found.keys()).cloned().collect(),
        };
        for name in names {
            let failure = failed
                .iter()
                .find(|(part, _)| group_and_version(part).0 == name);
            match failure {
                Some((part, error)) => self.failed(&name, part, error, now),
                None if self.agenda.succeeded(&name, now) => {
                    info!("API group '{name}' can be scanned again.");
                }
                None => {}
            }
            match found.remove(&name) {
                Some(kinds) => self.groups.insert(name, kinds),
                None => self.groups.remove(&name),
            };
        }
        if *groups == self.wanted {
            self.agenda.succeeded(EVERYTHING, now);
        }
    }

    /// Nothing could be asked for.
    fn fail(&mut self, error: &Error) {
        let now = Instant::now();
        for group in self.agenda.due(now) {
            self.failed(&group, &group, error, now);
        }
    }

    fn failed(&mut self, group: &str, part: &str, error: &Error, now: Instant) {
        if self.agenda.failed(group, now) {
            warn!("API group '{part}' cannot be scanned, it will be tried again later: {error}");
        } else {
            debug!("API group '{part}' still cannot be scanned: {error}");
        }
    }

    /// Definitions were listed.
    pub(super) fn listed(&mut self) {
        // What has happened between two listings was seen by nobody.
        if std::mem::replace(&mut self.is_stale, true) {
            self.agenda.changed(EVERYTHING, Instant::now());
        }
    }

    /// Definitions could not be listed or watched.
    pub(super) fn missed(&mut self) {
        self.is_stale = true;
    }

    /// Something has happened to a definition, or it was listed.
    pub(super) fn definition(&mut self, item: &Item) {
        // Definitions are always named so.
        let name = item.key.name.as_deref().unwrap_or_default();
        let Some((plural, group)) = name.split_once('.') else {
            return;
        };
        if !self.wanted.contain(group) {
            return;
        }
        // Those of the listing are known already, unless they came after the kinds were discovered.
        let is_news = item.event != EventType::Listed
            || !self
                .groups
                .get(group)
                .is_some_and(|known| known.iter().any(|resource| resource.plural == plural));
        if is_news {
            self.agenda.changed(group, Instant::now());
        }
    }
}

/// Failures are told of versions of groups, or of whole groups; the core group has no name.
fn group_and_version(part: &str) -> (&str, Option<&str>) {
    match part.split_once('/') {
        Some((group, version)) => (group, Some(version)),
        None if part == "v1" => ("", Some(part)),
        None => (part, None),
    }
}
