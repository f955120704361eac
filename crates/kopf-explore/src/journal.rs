//! The journal of one run: what the user, the operator and the API server did, in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::object::{ObjectKey, is_housekeeping};

/// Maximum number of entries of one journal. Later ones are only counted.
pub const MOST_ENTRIES: usize = 100_000;
/// Entries of a journal that a report shows.
const MOST_SHOWN: usize = 2_000;

/// The origin of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Actor {
    /// A step of the scenario, or a deviation that acts as another client.
    User,
    /// A process of the operator, by its number.
    Operator(usize),
    /// A controller of the API server: garbage collection, simulated workloads.
    System,
}

impl Actor {
    /// Returns `true` for a process of the operator.
    pub fn is_operator(self) -> bool {
        matches!(self, Self::Operator(_))
    }
}

/// A request of the operator or the user.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Request {
    /// The serial number of the request in the run.
    pub number: u64,
    /// The sender.
    pub actor: Actor,
    /// The verb, as in RBAC rules.
    pub verb: String,
    /// The object, or the collection with an empty name. The name of a created object is that of
    /// its body, or its generated prefix and `*`.
    pub key: ObjectKey,
    /// The subresource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// `true` for dry runs, which change nothing.
    pub is_dry: bool,
}

impl Request {
    /// Returns `true` if the verb changes objects.
    pub fn is_write(&self) -> bool {
        !self.is_dry && is_write(&self.verb)
    }
}

/// Returns `true` if a verb changes objects.
pub fn is_write(verb: &str) -> bool {
    matches!(
        verb,
        "create" | "update" | "patch" | "apply" | "delete" | "deletecollection"
    )
}

/// The response to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Response {
    /// The number of the request.
    pub number: u64,
    /// The HTTP status; 0 for a broken connection.
    pub code: u16,
    /// `true` if the response is a deviation.
    pub is_injected: bool,
}

/// The type of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    /// The object was created.
    Created,
    /// The object was changed.
    Changed,
    /// The object was deleted.
    Deleted,
}

/// A committed change of an object.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Commit {
    /// The revision of the store.
    pub revision: u64,
    /// The type of the change.
    pub change: Change,
    /// The object.
    pub key: ObjectKey,
    /// The origin of the change.
    pub actor: Actor,
    /// The state before; `None` for a creation.
    #[serde(skip)]
    pub before: Option<Arc<Value>>,
    /// The state after; `None` for a deletion.
    #[serde(skip)]
    pub after: Option<Arc<Value>>,
}

/// A watch event that was sent to the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Delivery {
    /// The process of the operator.
    pub instance: usize,
    /// `ADDED`, `MODIFIED`, `DELETED`.
    pub event: String,
    /// The object.
    pub key: ObjectKey,
    /// The revision of the object.
    pub revision: u64,
}

/// A change of a process of the operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProcessChange {
    /// It was started.
    Started,
    /// It was killed by the explorer (SIGKILL).
    Killed,
    /// It was asked to exit by the explorer (SIGTERM).
    Terminated,
    /// It exited after it was killed or asked to exit.
    Ended,
    /// It exited by itself, with this status.
    Exited(String),
    /// It did not exit within the grace period.
    Stuck,
    /// It was frozen by the explorer (SIGSTOP).
    Frozen,
    /// It continues after it was frozen (SIGCONT).
    Thawed,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Happening {
    /// A step of the scenario begins, by its description.
    Step(String),
    /// A request arrived.
    Request(Request),
    /// A request was answered.
    Response(Response),
    /// A change was committed.
    Commit(Commit),
    /// A watch event was sent.
    Delivery(Delivery),
    /// A process of the operator changed.
    Process {
        /// The number of the process, from 1.
        instance: usize,
        /// The change.
        change: ProcessChange,
    },
    /// The deviation acted, as described.
    Deviation(String),
}

/// An entry of a journal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Entry {
    /// The time since the start of the run.
    pub at: Duration,
    /// The step of the scenario, from 1; 0 before the first one.
    pub step: usize,
    /// The event.
    pub what: Happening,
}

/// All entries of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Journal {
    /// The entries, in order.
    pub entries: Vec<Entry>,
    /// The number of entries that did not fit.
    pub omitted: usize,
}

impl Journal {
    /// Adds an entry, unless the journal is full.
    pub fn push(&mut self, entry: Entry) {
        if self.entries.len() < MOST_ENTRIES {
            self.entries.push(entry);
        } else {
            self.omitted += 1;
        }
    }

    /// Returns the part that a report shows: without the contents of objects, and without the middle of a
    /// long run. Steps, processes and deviations are kept.
    #[must_use]
    pub fn trimmed(mut self) -> Self {
        let count = self.entries.len();
        let middle = MOST_SHOWN / 2..count.saturating_sub(MOST_SHOWN / 2);
        let mut index = 0;
        let mut kept = 0;
        self.entries.retain(|entry| {
            let is_in_the_middle = middle.contains(&index);
            index += 1;
            let is_turn = matches!(
                entry.what,
                Happening::Step(_) | Happening::Process { .. } | Happening::Deviation(_)
            );
            let is_kept = !is_in_the_middle || (is_turn && kept < 2 * MOST_SHOWN);
            kept += usize::from(is_kept);
            is_kept
        });
        self.omitted += count - self.entries.len();
        for entry in &mut self.entries {
            if let Happening::Commit(commit) = &mut entry.what {
                commit.before = None;
                commit.after = None;
            }
        }
        self.entries.shrink_to_fit();
        self
    }

    /// Returns the requests with their steps.
    pub fn requests(&self) -> impl Iterator<Item = (usize, &Request)> {
        self.entries.iter().filter_map(|entry| match &entry.what {
            Happening::Request(request) => Some((entry.step, request)),
            _ => None,
        })
    }

    /// Returns the requests of the operator with their steps.
    pub fn operator_requests(&self) -> impl Iterator<Item = (usize, &Request)> {
        self.requests()
            .filter(|(_, request)| request.actor.is_operator())
    }

    /// Returns the largest number of requests of the operator within a time, with the step in which it
    /// ends. Events and leases do not count.
    pub fn peak(&self, window: Duration) -> (usize, usize) {
        let mut recent: VecDeque<Duration> = VecDeque::new();
        let mut peak = (0, 0);
        for entry in &self.entries {
            let Happening::Request(request) = &entry.what else {
                continue;
            };
            if !request.actor.is_operator() || is_housekeeping(&request.key.resource) {
                continue;
            }
            recent.push_back(entry.at);
            while recent
                .front()
                .is_some_and(|first| *first + window < entry.at)
            {
                recent.pop_front();
            }
            if recent.len() > peak.0 {
                peak = (recent.len(), entry.step);
            }
        }
        peak
    }

    /// Returns the commits with their steps.
    pub fn commits(&self) -> impl Iterator<Item = (usize, &Commit)> {
        self.entries.iter().filter_map(|entry| match &entry.what {
            Happening::Commit(commit) => Some((entry.step, commit)),
            _ => None,
        })
    }

    /// Returns the responses by the numbers of their requests.
    pub fn responses(&self) -> BTreeMap<u64, &Response> {
        let responses = self.entries.iter().filter_map(|entry| match &entry.what {
            Happening::Response(response) => Some((response.number, response)),
            _ => None,
        });
        responses.collect()
    }
}

/// All objects that were touched since the operator was started, at one moment.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// The objects.
    pub objects: BTreeMap<ObjectKey, Arc<Value>>,
    /// The objects of all uids of the run, existing or not.
    pub uids: Arc<BTreeMap<String, ObjectKey>>,
    /// The uids of deleted objects.
    pub gone: Arc<BTreeSet<String>>,
    /// The objects that were created by controllers of the API server.
    pub of_system: Arc<BTreeSet<ObjectKey>>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(what: Happening) -> Entry {
        Entry {
            at: Duration::ZERO,
            step: 1,
            what,
        }
    }

    #[test]
    fn trimmed_journals_have_both_ends_and_the_deviation() {
        let commit = Happening::Commit(Commit {
            revision: 1,
            change: Change::Changed,
            key: ObjectKey::new("", "pods", Some("default"), "a"),
            actor: Actor::System,
            before: Some(Arc::new(json!({}))),
            after: Some(Arc::new(json!({}))),
        });
        let mut journal = Journal::default();
        for _ in 0..2 * MOST_SHOWN {
            journal.push(entry(commit.clone()));
        }
        journal.push(entry(Happening::Deviation("a crash".to_owned())));
        for _ in 0..2 * MOST_SHOWN {
            journal.push(entry(commit.clone()));
        }
        let trimmed = journal.trimmed();
        assert_eq!(trimmed.entries.len(), MOST_SHOWN + 1);
        assert_eq!(trimmed.omitted, 3 * MOST_SHOWN);
        let crash = &trimmed.entries[MOST_SHOWN / 2].what;
        assert_eq!(*crash, Happening::Deviation("a crash".to_owned()));
        let mut commits = trimmed.commits();
        assert!(commits.all(|(_, one)| one.before.is_none() && one.after.is_none()));
    }
}
