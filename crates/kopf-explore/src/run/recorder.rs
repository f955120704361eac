//! The recorder of one run: journal, objects, and the time of the last change.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::journal::{
    Actor, Change, Commit, Delivery, Entry, Happening, Journal, ProcessChange, Request, Response,
    Snapshot,
};
use crate::mask::Mask;
use crate::object::{LEASES, ObjectKey, is_housekeeping};
use crate::record::holder;

/// Requests that are answered later than this do not delay the next step.
const LONGEST_REQUEST: Duration = Duration::from_secs(30);

/// Shared between the tap of the sandbox and the run.
#[derive(Debug)]
pub(crate) struct Recorder {
    began: Instant,
    mask: Mask,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    journal: Journal,
    /// `true` after the manifests are loaded.
    is_recording: bool,
    step: usize,
    revision: u64,
    objects: BTreeMap<ObjectKey, Arc<Value>>,
    touched: BTreeSet<ObjectKey>,
    uids: Arc<BTreeMap<String, ObjectKey>>,
    gone: Arc<BTreeSet<String>>,
    of_system: Arc<BTreeSet<ObjectKey>>,
    /// The processes that hold leases.
    leases: BTreeMap<ObjectKey, usize>,
    /// The senders of requests that can cause commits.
    senders: BTreeMap<u64, Actor>,
    /// Requests of the operator without a response, other than watches.
    open_requests: BTreeMap<u64, (usize, Instant)>,
    watches: BTreeMap<usize, BTreeSet<String>>,
    requests: BTreeMap<usize, usize>,
    last_change: Option<Instant>,
    last_watch: Option<Instant>,
    first_request: Option<Instant>,
    /// The longest pause of each step, and that of the current one.
    pauses: Vec<Duration>,
    pause: Duration,
    changes: u64,
    /// The revisions of these changes.
    counted: BTreeSet<u64>,
}

impl State {
    fn note_holder(&mut self, lease: &ObjectKey, actor: Actor, after: Option<&Value>) {
        match (actor, after.and_then(holder)) {
            (Actor::Operator(instance), Some(_)) => {
                self.leases.insert(lease.clone(), instance);
            }
            _ => {
                self.leases.remove(lease);
            }
        }
    }
}

/// The activity of a run at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Activity {
    /// The time since the last change, or since the beginning of the step.
    pub(crate) quiet_for: Duration,
    /// The number of changes so far.
    pub(crate) changes: u64,
    /// `true` if a request of the operator has no response yet.
    pub(crate) is_requesting: bool,
    /// The time since the operator has opened a watch.
    pub(crate) since_watch: Option<Duration>,
    /// The time since the first request of the operator.
    pub(crate) since_request: Option<Duration>,
}

impl Recorder {
    pub(crate) fn new(mask: Mask) -> Self {
        Self {
            began: Instant::now(),
            mask,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn mask(&self) -> &Mask {
        &self.mask
    }

    /// Begins the journal: objects so far are given.
    pub(crate) fn begin(&self) {
        let mut state = self.state();
        state.is_recording = true;
        state.last_change = Some(Instant::now());
    }

    /// Returns the objects that exist now.
    pub(crate) fn objects(&self) -> BTreeMap<ObjectKey, Arc<Value>> {
        self.state().objects.clone()
    }

    /// Begins a step.
    pub(crate) fn step(&self, number: usize, description: &str) {
        let mut state = self.state();
        let pause = std::mem::take(&mut state.pause);
        state.pauses.push(pause);
        state.step = number;
        state.last_change = Some(Instant::now());
        self.push(&mut state, Happening::Step(description.to_owned()));
    }

    pub(crate) fn current_step(&self) -> usize {
        self.state().step
    }

    pub(crate) fn revision(&self) -> u64 {
        self.state().revision
    }

    fn push(&self, state: &mut State, what: Happening) {
        if state.is_recording {
            let entry = Entry {
                at: self.began.elapsed(),
                step: state.step,
                what,
            };
            state.journal.push(entry);
        }
    }

    pub(crate) fn note(&self, what: impl Into<String>) {
        let mut state = self.state();
        self.push(&mut state, Happening::Deviation(what.into()));
    }

    pub(crate) fn process(&self, instance: usize, change: ProcessChange) {
        let mut state = self.state();
        let is_alive = matches!(
            change,
            ProcessChange::Started | ProcessChange::Frozen | ProcessChange::Thawed
        );
        if !is_alive {
            state
                .open_requests
                .retain(|_, (owner, _)| *owner != instance);
            state.watches.remove(&instance);
        }
        state.last_change = Some(Instant::now());
        self.push(&mut state, Happening::Process { instance, change });
    }

    /// Records a request. Returns the step.
    pub(crate) fn request(&self, request: Request) -> usize {
        let mut state = self.state();
        let now = Instant::now();
        if request.is_write() {
            state.senders.insert(request.number, request.actor);
        }
        if let Actor::Operator(instance) = request.actor {
            *state.requests.entry(instance).or_default() += 1;
            state.first_request.get_or_insert(now);
            if request.verb != "watch" && !is_housekeeping(&request.key.resource) {
                state.open_requests.insert(request.number, (instance, now));
            }
            self.push(&mut state, Happening::Request(request));
        }
        state.step
    }

    pub(crate) fn response(&self, actor: Actor, response: Response, watched: Option<&str>) {
        let mut state = self.state();
        state.open_requests.remove(&response.number);
        if let Actor::Operator(instance) = actor {
            if let Some(resource) = watched.filter(|_| response.code == 200) {
                let watches = state.watches.entry(instance).or_default();
                if watches.insert(resource.to_owned()) {
                    state.last_watch = Some(Instant::now());
                }
            }
            self.push(&mut state, Happening::Response(response));
        }
    }

    /// Records an event. The operator reacts to it from now on, however late it is delivered.
    pub(crate) fn delivery(&self, delivery: Delivery) {
        let mut state = self.state();
        if state.counted.contains(&delivery.revision) {
            state.last_change = Some(Instant::now());
        }
        self.push(&mut state, Happening::Delivery(delivery));
    }

    pub(crate) fn commit(
        &self,
        revision: u64,
        key: ObjectKey,
        cause: Option<u64>,
        after: Option<Arc<Value>>,
    ) {
        let mut state = self.state();
        state.revision = state.revision.max(revision);
        let before = match &after {
            Some(object) => {
                if let Some(uid) = uid(object) {
                    Arc::make_mut(&mut state.uids).insert(uid, key.clone());
                }
                state.objects.insert(key.clone(), Arc::clone(object))
            }
            None => state.objects.remove(&key),
        };
        if let (Some(uid), None) = (before.as_deref().and_then(uid), &after) {
            Arc::make_mut(&mut state.gone).insert(uid);
        }
        let change = match (&before, &after) {
            (None, _) => Change::Created,
            (Some(_), None) => Change::Deleted,
            (Some(_), Some(_)) => Change::Changed,
        };
        let actor = cause.and_then(|number| state.senders.get(&number).copied());
        let actor = actor.unwrap_or(Actor::System);
        if change == Change::Created && actor == Actor::System {
            Arc::make_mut(&mut state.of_system).insert(key.clone());
        }
        if !state.is_recording {
            return;
        }
        let counts = !is_housekeeping(&key.resource)
            && match (&before, &after) {
                (Some(before), Some(after)) => self.mask.is_change(&key, before, after),
                _ => true,
            };
        if counts {
            let now = Instant::now();
            let last = state.last_change.replace(now);
            let pause = last.map_or(Duration::ZERO, |last| now.duration_since(last));
            state.pause = state.pause.max(pause);
            state.changes += 1;
            state.counted.insert(revision);
        }
        state.touched.insert(key.clone());
        if key.resource == LEASES {
            state.note_holder(&key, actor, after.as_deref());
        }
        self.push(
            &mut state,
            Happening::Commit(Commit {
                revision,
                change,
                key,
                actor,
                before,
                after,
            }),
        );
    }

    pub(crate) fn activity(&self) -> Activity {
        let mut state = self.state();
        let now = Instant::now();
        state
            .open_requests
            .retain(|_, (_, began)| now.duration_since(*began) < LONGEST_REQUEST);
        let since = |moment: Option<Instant>| moment.map(|moment| now.duration_since(moment));
        Activity {
            quiet_for: since(state.last_change).unwrap_or_default(),
            changes: state.changes,
            is_requesting: !state.open_requests.is_empty(),
            since_watch: since(state.last_watch),
            since_request: since(state.first_request),
        }
    }

    /// Returns `true` if a process watches all of these resources.
    pub(crate) fn is_watching(&self, instance: usize, resources: &BTreeSet<String>) -> bool {
        let state = self.state();
        let is_known = state.requests.contains_key(&instance);
        match state.watches.get(&instance) {
            Some(watches) => resources.is_subset(watches),
            None => resources.is_empty() && is_known,
        }
    }

    /// Returns the leases that are held by processes of the operator.
    pub(crate) fn leases(&self) -> BTreeMap<ObjectKey, usize> {
        self.state().leases.clone()
    }

    /// Returns the objects that were touched.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let state = self.state();
        let touched = state.touched.iter().filter_map(|key| {
            let object = state.objects.get(key)?;
            Some((key.clone(), Arc::clone(object)))
        });
        Snapshot {
            objects: touched.collect(),
            uids: Arc::clone(&state.uids),
            gone: Arc::clone(&state.gone),
            of_system: Arc::clone(&state.of_system),
        }
    }

    /// Returns the journal and the pauses, at the end.
    pub(crate) fn finish(&self) -> (Journal, Vec<Duration>) {
        let mut state = self.state();
        let pause = std::mem::take(&mut state.pause);
        state.pauses.push(pause);
        state.is_recording = false;
        (
            std::mem::take(&mut state.journal),
            std::mem::take(&mut state.pauses),
        )
    }
}

fn uid(object: &Value) -> Option<String> {
    object.pointer("/metadata/uid")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_of_the_server_are_known_from_the_beginning() {
        let recorder = Recorder::new(Mask::default());
        let key = ObjectKey::new("", "configmaps", Some("default"), "kube-root-ca.crt");
        let object = |number: u32| Some(Arc::new(json!({"data": {"ca": number}})));
        recorder.commit(1, key.clone(), None, object(1));
        recorder.begin();
        recorder.commit(2, key.clone(), None, object(2));
        let snapshot = recorder.snapshot();
        assert!(snapshot.objects.contains_key(&key), "it was touched");
        assert!(recorder.mask().view(&snapshot).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn late_events_and_open_requests_are_no_quiet() {
        let recorder = Recorder::new(Mask::default());
        let key = ObjectKey::new("", "pods", Some("default"), "a");
        recorder.begin();
        recorder.commit(7, key.clone(), None, Some(Arc::new(json!({"spec": 1}))));
        let second = Duration::from_secs(1);
        tokio::time::sleep(second).await;
        assert_eq!(recorder.activity().quiet_for, second);
        let deliver = |revision: u64| {
            recorder.delivery(Delivery {
                instance: 1,
                event: "ADDED".to_owned(),
                key: key.clone(),
                revision,
            });
        };
        deliver(6);
        assert_eq!(recorder.activity().quiet_for, second, "not a change");
        deliver(7);
        assert_eq!(recorder.activity().quiet_for, Duration::ZERO);
        recorder.request(Request {
            number: 1,
            actor: Actor::Operator(1),
            verb: "list".to_owned(),
            key,
            subresource: None,
            is_dry: false,
        });
        assert!(recorder.activity().is_requesting);
        let response = Response {
            number: 1,
            code: 200,
            is_injected: false,
        };
        recorder.response(Actor::Operator(1), response, None);
        assert!(!recorder.activity().is_requesting);
    }
}
