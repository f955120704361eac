//! The known resources of the cluster, and the groups to scan again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kopf_client::Error;
use kopf_client::discovery::{Groups, Scan};
use kopf_client::watching::Item;
use kopf_core::cause::EventType;
use kopf_core::resource::Resource;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::scan_schedule::ScanSchedule;

/// The name in the schedule for all groups at once; not a valid name of a group.
const EVERYTHING: &str = "*";

/// The known resources.
#[derive(Debug)]
pub(super) struct KnownResources {
    wanted: Groups,
    groups: BTreeMap<String, BTreeSet<Arc<Resource>>>,
    pub(super) schedule: ScanSchedule,
    /// `true` if events of CRDs may be lost until the next listing.
    is_stale: bool,
}

impl KnownResources {
    pub(super) fn new(wanted: Groups) -> Self {
        Self {
            wanted,
            groups: BTreeMap::new(),
            schedule: ScanSchedule::default(),
            is_stale: false,
        }
    }

    /// Returns all resources.
    pub(super) fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.values().flatten()
    }

    /// Returns the groups to scan now, if any.
    pub(super) fn due(&self) -> Option<Groups> {
        let due = self.schedule.due(Instant::now());
        if due.contains(EVERYTHING) {
            Some(self.wanted.clone())
        } else {
            (!due.is_empty()).then_some(Groups::Only(due))
        }
    }

    /// Stores the results of a scan of these groups.
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
        // Resources of groups whose scan has failed are kept.
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
                None if self.schedule.succeeded(&name, now) => {
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
            self.schedule.succeeded(EVERYTHING, now);
        }
    }

    /// Records the failure of a whole scan.
    fn fail(&mut self, error: &Error) {
        let now = Instant::now();
        for group in self.schedule.due(now) {
            self.failed(&group, &group, error, now);
        }
    }

    fn failed(&mut self, group: &str, part: &str, error: &Error, now: Instant) {
        if self.schedule.failed(group, now) {
            warn!("API group '{part}' cannot be scanned, it will be tried again later: {error}");
        } else {
            debug!("API group '{part}' still cannot be scanned: {error}");
        }
    }

    /// Handles a complete listing of CRDs.
    pub(super) fn listed(&mut self) {
        // Changes between two listings are missed.
        if std::mem::replace(&mut self.is_stale, true) {
            self.schedule.changed(EVERYTHING, Instant::now());
        }
    }

    /// Handles a failed listing or watch of CRDs.
    pub(super) fn missed(&mut self) {
        self.is_stale = true;
    }

    /// Handles a listed or changed CRD.
    pub(super) fn definition(&mut self, item: &Item) {
        // CRDs are always named `plural.group`.
        let name = item.key.name.as_deref().unwrap_or_default();
        let Some((plural, group)) = name.split_once('.') else {
            return;
        };
        if !self.wanted.contain(group) {
            return;
        }
        // Listed CRDs are already discovered, unless they were created after the discovery.
        let is_news = item.event != EventType::Listed
            || !self
                .groups
                .get(group)
                .is_some_and(|known| known.iter().any(|resource| resource.plural == plural));
        if is_news {
            self.schedule.changed(group, Instant::now());
        }
    }
}

/// Returns the group of a failed scan of a group or of a version. The name of the core group is
/// empty.
fn group_and_version(part: &str) -> (&str, Option<&str>) {
    match part.split_once('/') {
        Some((group, version)) => (group, Some(version)),
        None if part == "v1" => ("", Some(part)),
        None => (part, None),
    }
}
