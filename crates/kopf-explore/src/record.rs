//! The record of one run, and what several undisturbed runs have in common.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::journal::{Actor, Change, Happening, Journal, ProcessChange, Snapshot};
use crate::mask::{Difference, Mask, MaskedField, Unstable, View};
use crate::object::{LEASES, ObjectKey};
use crate::point::{Point, Site, points};

/// The time in which requests are counted.
pub const WINDOW: Duration = Duration::from_secs(10);

/// The resource of CRDs, whose schemas say which lists have no order.
const CRDS: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum End {
    /// All steps were done, and the operator settled after each.
    #[default]
    Complete,
    /// The operator did not stop writing after this step.
    NotQuiet {
        /// The step, from 1; 0 before the first one.
        step: usize,
    },
    /// The state after this step did not become that of the reference.
    NotConverged {
        /// The step, from 1.
        step: usize,
        /// The remaining differences.
        differences: Vec<Difference>,
    },
    /// The operator exited by itself.
    Exited {
        /// The step, from 1; 0 before the first one.
        step: usize,
        /// The exit status.
        status: String,
    },
    /// The operator sent no request.
    NoRequests,
    /// The operator was started again, but does not watch its resources.
    NotReady {
        /// The step, from 1; 0 before the first one.
        step: usize,
    },
    /// The operator cannot be started.
    NotStarted {
        /// The reason.
        why: String,
    },
    /// The API server rejected a step, or its condition did not become true.
    StepFailed {
        /// The step, from 1.
        step: usize,
        /// The reason.
        why: String,
    },
}

/// Everything that is known about one run.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// The events of the run, in order.
    pub journal: Journal,
    /// The state after each step; `None` after steps that do not wait.
    pub states: Vec<Option<Snapshot>>,
    /// The state at the end.
    pub last: Snapshot,
    /// The objects of the manifests, before the operator was started.
    pub initial: BTreeMap<ObjectKey, Arc<Value>>,
    /// The longest pause before a change, per step, beginning with that before the first step.
    pub pauses: Vec<Duration>,
    /// The end of the run.
    pub end: End,
    /// `true` if the deviation happened.
    pub is_reached: bool,
    /// The end of the output of all processes.
    pub output: String,
}

/// The common part of undisturbed runs.
#[derive(Debug, Clone, Default)]
pub struct Reference {
    /// The values that are not compared.
    pub mask: Mask,
    /// The state after each step.
    pub views: Vec<Option<View>>,
    /// The points of the first run.
    pub points: Vec<Point>,
    /// The longest pause of the operator, per step, beginning with that before the first step.
    pub pauses: Vec<Duration>,
    /// The resources that the operator watches before the first step.
    pub watched: BTreeSet<String>,
    /// The resources of events, per step, beginning with those before the first step.
    pub delivered: Vec<BTreeSet<String>>,
    /// The resources that the user changes, per step.
    pub changed_by_user: Vec<BTreeSet<String>>,
    /// The objects that the user applies.
    pub of_user: BTreeSet<ObjectKey>,
    /// The objects that the operator deletes.
    pub deleted: BTreeSet<ObjectKey>,
    /// The leases that the operator holds.
    pub leases: BTreeSet<ObjectKey>,
    /// The number of processes of the operator.
    pub replicas: usize,
    /// The largest number of requests of one run within [`WINDOW`].
    pub peak: usize,
    /// The largest number of writes of each kind in one run.
    pub writes: BTreeMap<Site, usize>,
    /// The requests of the operator that fail, with their codes.
    pub failures: BTreeSet<(String, u16)>,
    /// The output of all runs.
    pub output: String,
}

/// The reference runs disagree, so that nothing can be compared with them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NonDeterministic {
    /// They disagree about objects.
    #[error("the operator is not deterministic without any fault: {0}")]
    Objects(#[from] Unstable),
    /// They disagree about writes.
    #[error(
        "the operator is not deterministic without any fault: {site} happens in {some} of {all} reference runs"
    )]
    Writes {
        /// The request.
        site: Box<Site>,
        /// The number of runs with it.
        some: usize,
        /// The number of runs.
        all: usize,
    },
}

impl Reference {
    /// Learns from the records of undisturbed runs.
    pub fn learn(records: &[Record], ignored: &[MaskedField]) -> Result<Self, NonDeterministic> {
        let states: Vec<&[Option<Snapshot>]> =
            records.iter().map(|record| &*record.states).collect();
        let initial = records.first().map(|record| &record.initial);
        let crds = initial.into_iter().flatten();
        let crds = crds.filter(|(key, _)| key.resource == CRDS);
        let mask = Mask::new(ignored.iter().cloned())
            .with_crds(crds.map(|(_, object)| &**object))
            .learn(&states)?;
        compare_writes(records, &mask)?;
        let mut reference = Self {
            mask,
            ..Self::default()
        };
        if let Some(first) = records.first() {
            let views = first.states.iter();
            let view =
                |state: &Option<Snapshot>| state.as_ref().map(|state| reference.mask.view(state));
            reference.views = views.map(view).collect();
            reference.points = points(&first.journal, reference.mask.names());
        }
        for record in records {
            reference.add(record);
        }
        Ok(reference)
    }

    fn add(&mut self, record: &Record) {
        let steps = record.states.len() + 1;
        self.pauses.resize(steps, Duration::ZERO);
        self.delivered.resize(steps, BTreeSet::new());
        self.changed_by_user.resize(steps, BTreeSet::new());
        for (known, pause) in self.pauses.iter_mut().zip(&record.pauses) {
            *known = (*known).max(*pause);
        }
        self.peak = self.peak.max(record.journal.peak(WINDOW).0);
        let mut writes: BTreeMap<Site, usize> = BTreeMap::new();
        for (_, request) in record.journal.operator_requests() {
            if request.is_write() {
                let site = Site::of(request, self.mask.names());
                *writes.entry(site).or_default() += 1;
            }
        }
        for (site, count) in writes {
            let most = self.writes.entry(site).or_default();
            *most = count.max(*most);
        }
        self.add_requests(record);
        self.add_changes(record);
        self.output.push_str(&record.output);
    }

    fn add_requests(&mut self, record: &Record) {
        let responses = record.journal.responses();
        for (step, request) in record.journal.operator_requests() {
            let response = responses.get(&request.number);
            let is_open = response.is_some_and(|response| response.code == 200);
            if request.verb == "watch" && step == 0 && is_open {
                self.watched.insert(request.key.resource.clone());
            }
            if let Some(response) = response.filter(|one| one.code >= 400) {
                let site = Site::of(request, self.mask.names()).to_string();
                self.failures.insert((site, response.code));
            }
        }
    }

    fn add_changes(&mut self, record: &Record) {
        for entry in &record.journal.entries {
            match &entry.what {
                Happening::Delivery(delivery) => {
                    if let Some(resources) = self.delivered.get_mut(entry.step) {
                        resources.insert(delivery.key.resource.clone());
                    }
                }
                Happening::Commit(commit) if commit.actor == Actor::User => {
                    if let Some(resources) = self.changed_by_user.get_mut(entry.step) {
                        resources.insert(commit.key.resource.clone());
                    }
                    self.of_user.insert(commit.key.clone());
                }
                Happening::Process {
                    instance,
                    change: ProcessChange::Started,
                } if entry.step == 0 => self.replicas = self.replicas.max(*instance),
                Happening::Commit(commit) if commit.actor.is_operator() => {
                    if commit.key.resource == LEASES
                        && commit.after.as_deref().and_then(holder).is_some()
                    {
                        self.leases.insert(commit.key.clone());
                    }
                    let is_deleted = commit.change == Change::Deleted || begins_deletion(commit);
                    if is_deleted {
                        let key = self
                            .mask
                            .names()
                            .pattern(&commit.key, commit.before.as_deref());
                        self.deleted.insert(key);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the expected state after a step, from 1.
    pub fn view(&self, step: usize) -> Option<&View> {
        self.views.get(step.checked_sub(1)?)?.as_ref()
    }

    /// Returns a view without the status and the annotations of the user's objects: both may tell of
    /// earlier states.
    #[must_use]
    pub fn without_history(&self, mut view: View) -> View {
        for (key, values) in &mut view {
            if !self.of_user.contains(key) {
                continue;
            }
            for value in values {
                if let Some(object) = value.as_object_mut() {
                    object.remove("status");
                    if let Some(Value::Object(metadata)) = object.get_mut("metadata") {
                        metadata.remove("annotations");
                    }
                }
            }
        }
        view
    }

    /// Returns the longest pause of the operator in a step.
    pub fn pause(&self, step: usize) -> Duration {
        self.pauses.get(step).copied().unwrap_or_default()
    }
}

/// Returns the holder of a lease.
pub fn holder(lease: &Value) -> Option<&str> {
    let holder = lease.pointer("/spec/holderIdentity")?.as_str()?;
    (!holder.is_empty()).then_some(holder)
}

/// Returns `true` if a change marks an object with finalizers for deletion.
pub fn begins_deletion(commit: &crate::journal::Commit) -> bool {
    let mark = |object: &Option<Arc<Value>>| {
        let object = object.as_deref()?;
        object.pointer("/metadata/deletionTimestamp").cloned()
    };
    mark(&commit.before).is_none() && mark(&commit.after).is_some()
}

/// Checks that all runs send the same kinds of writes, whatever their number.
fn compare_writes(records: &[Record], mask: &Mask) -> Result<(), NonDeterministic> {
    let sites: Vec<BTreeSet<Site>> = records
        .iter()
        .map(|record| {
            let points = points(&record.journal, mask.names());
            let sites = points.into_iter().map(|point| point.site);
            sites
                .filter(|site| crate::journal::is_write(&site.verb))
                .collect()
        })
        .collect();
    let all: BTreeSet<&Site> = sites.iter().flatten().collect();
    for site in all {
        let some = sites.iter().filter(|run| run.contains(site)).count();
        if some < records.len() {
            return Err(NonDeterministic::Writes {
                site: Box::new(site.clone()),
                some,
                all: records.len(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::{Entry, Request, Response};

    fn watch(number: u64, resource: &str, code: u16) -> [Entry; 2] {
        let request = Happening::Request(Request {
            number,
            actor: Actor::Operator(1),
            verb: "watch".to_owned(),
            key: ObjectKey::new("", resource, None, ""),
            subresource: None,
            is_dry: false,
        });
        let response = Happening::Response(Response {
            number,
            code,
            is_injected: false,
        });
        [request, response].map(|what| Entry {
            at: Duration::ZERO,
            step: 0,
            what,
        })
    }

    #[test]
    fn rejected_watches_are_not_awaited_in_other_runs() {
        let mut record = Record::default();
        for entry in watch(1, "shops", 200)
            .into_iter()
            .chain(watch(2, "kopfpeerings", 404))
        {
            record.journal.push(entry);
        }
        let reference = Reference::learn(&[record], &[]).unwrap();
        assert_eq!(reference.watched, BTreeSet::from(["shops".to_owned()]));
    }
}
