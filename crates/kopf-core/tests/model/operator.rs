//! One process of the operator in the model: the machine, and a driver without I/O.

use std::sync::Arc;
use std::time::Duration;

use kopf_core::body::Body;
use kopf_core::cause::{Compared, EventType, Reason, Sighting, detect};
use kopf_core::diff::diff;
use kopf_core::diffbase::{AnnotationsDiffBaseStorage, DiffBaseStorage as _};
use kopf_core::handler::HandlerId;
use kopf_core::keys::KeyNaming;
use kopf_core::object::attempted::Place;
use kopf_core::object::handling::{
    Attempted, Attempts, Conclusion, Essences, Handling, RunnerExits, Storages, Tracking,
    fingerprint, load_attempted,
};
use kopf_core::object::{
    Action, Actions, AttemptedEssences, Facts, Finalizer, FinalizerChange, Handled, Input, Machine,
    Moment, PendingPatch, Response, Rules, Snapshot,
};
use kopf_core::patch::Patch;
use kopf_core::progress::state::State;
use kopf_core::progress::{AnnotationsProgressStorage, ProgressStorage as _};
use serde_json::{Value, json};

use super::attempts::{attempt, timestamp};
use super::mutations::Mutation;
use super::releasing::{Kept, released};
use super::server::{FINALIZER, Outcome, Request, has_finalizer, is_deleting};

/// The handlers of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Handlers {
    /// Handlers of creations and updates.
    pub(crate) changing: &'static [&'static str],
    /// Handlers of resuming.
    pub(crate) resuming: &'static [&'static str],
    /// Handlers of deletions.
    pub(crate) deleting: &'static [&'static str],
    /// There is a daemon.
    pub(crate) daemon: bool,
}

/// The daemon of the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Runner {
    #[default]
    Absent,
    Running,
    Stopping,
}

/// The event that the driver waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Phase {
    /// The next input.
    #[default]
    Waiting,
    /// A handler.
    Calling { handler: &'static str },
    /// A response.
    Sending {
        request: Request,
        outcome: Option<Outcome>,
    },
}

/// One process of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Process {
    pub(crate) machine: Machine,
    pub(crate) newest: Option<(EventType, Arc<Value>)>,
    pub(crate) phase: Phase,
    pub(crate) runner: Runner,
    noticed_by_listing: bool,
    handled_once: bool,
    pub(super) merge: Value,
    transformed: Option<Value>,
    unsent: Option<Request>,
    response: Option<Arc<Value>>,
    reason: Option<Reason>,
    pub(super) release: Option<Kept>,
    /// The outcomes to be recorded, because the finalizer could not be removed.
    pub(crate) record: Option<Value>,
}

/// A call of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) handler: &'static str,
    pub(crate) reason: Reason,
    pub(crate) body: Arc<Value>,
}

/// The rules and handlers of an operator.
pub(crate) struct Operator<R> {
    pub(crate) rules: R,
    pub(crate) handlers: Handlers,
    pub(crate) lost_updates: bool,
    /// A mutation of the operator; those of the rules are not here.
    pub(crate) mutation: Option<Mutation>,
    pub(super) progress: AnnotationsProgressStorage,
    diffbase: AnnotationsDiffBaseStorage,
    place: Place,
}

impl<R: Rules> Operator<R> {
    pub(crate) fn new(rules: R, handlers: Handlers) -> Self {
        Self {
            rules,
            handlers,
            lost_updates: false,
            mutation: None,
            progress: AnnotationsProgressStorage::default(),
            diffbase: AnnotationsDiffBaseStorage::default(),
            place: KeyNaming::default().with_v1(false).into(),
        }
    }

    pub(super) fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    fn storages(&self) -> Storages<'_> {
        Storages {
            progress: &self.progress,
            diffbase: &self.diffbase,
            attempted: if self.lost_updates {
                Tracking::Off(&self.place)
            } else {
                Tracking::On(&self.place)
            },
        }
    }

    fn owned(&self) -> Vec<HandlerId> {
        let Handlers {
            changing,
            resuming,
            deleting,
            ..
        } = self.handlers;
        let ids = changing.iter().chain(resuming).chain(deleting);
        ids.map(|id| HandlerId::from(*id)).collect()
    }

    /// Returns the tracked part of an object.
    pub(crate) fn essence(&self, object: &Value) -> Value {
        let body = Body::new(object.clone());
        let mut essence = self.diffbase.build(&body, &[]).unwrap();
        self.progress.clear(&mut essence).unwrap();
        AttemptedEssences::strip(&self.place, &body, &mut essence);
        essence
    }

    /// Takes an event.
    pub(crate) fn take(
        &self,
        process: &mut Process,
        event: EventType,
        body: &Arc<Value>,
        now: Moment,
    ) {
        if process.newest.is_none() && event == EventType::Listed {
            process.noticed_by_listing = true;
        }
        let version = body["metadata"]["resourceVersion"].as_str();
        let is_outdated = event != EventType::Deleted
            && version.is_some_and(|version| process.machine.is_outdated(version, now));
        if !is_outdated {
            process.newest = Some((event, Arc::clone(body)));
        }
        let version = version.map(Into::into);
        self.feed(process, Input::Event { event, version }, now);
        let Some((event, body)) = process.newest.clone() else {
            return;
        };
        let snapshot = Snapshot {
            generation: body["metadata"]["generation"].as_i64(),
            deleting: is_deleting(&body),
        };
        self.feed(process, Input::Newest { event, snapshot }, now);
    }

    /// Feeds an input, and performs the actions until a handler or a response is waited for.
    pub(crate) fn feed(&self, process: &mut Process, input: Input, now: Moment) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let actions: Actions = process.machine.step(input, &self.rules, now);
            for action in actions {
                next = self.perform(process, &action, now);
                if next.is_some() {
                    break;
                }
            }
        }
    }

    fn perform(&self, process: &mut Process, action: &Action, now: Moment) -> Option<Input> {
        match action {
            Action::TendRunners => self.tend(process),
            Action::Plan => return Some(self.plan(process)),
            Action::Run(reason) => return self.run(process, *reason, now),
            Action::Write(change) => self.write(process, *change),
            Action::Resend => {
                let mut request = process.unsent.take().unwrap();
                let newest = process.newest.as_ref().map(|(_, body)| Arc::clone(body));
                let newest = newest.unwrap_or_default();
                // Transformations are made for one version only.
                let is_same = number(&newest) == number(&request.base);
                request.transformed = request.transformed.filter(|_| is_same);
                (request.base, request.merged) = (newest, None);
                process.phase = Phase::Sending {
                    request,
                    outcome: None,
                };
            }
            Action::DropUnsent => process.unsent = None,
            Action::Record if !self.has(Mutation::RefusalNotRecorded) => self.record(process),
            Action::AdoptResponse => {
                if let (Some(response), Some((_, newest))) =
                    (process.response.take(), &process.newest)
                    && number(&response) > number(newest)
                {
                    process.newest = Some((EventType::Modified, response));
                }
            }
            Action::Forget => {
                process.newest = None;
                process.release = None;
                process.runner = Runner::Absent;
            }
            _ => {}
        }
        None
    }

    fn tend(&self, process: &mut Process) {
        let Some((event, body)) = &process.newest else {
            return;
        };
        if !self.handlers.daemon || *event == EventType::Deleted {
            return;
        }
        match (process.runner, is_deleting(body)) {
            (Runner::Absent, false) => process.runner = Runner::Running,
            (Runner::Running, true) => process.runner = Runner::Stopping,
            _ => {}
        }
    }

    fn plan(&self, process: &mut Process) -> Input {
        let Some((event, value)) = process.newest.clone() else {
            return Input::NoVersion;
        };
        let exiting = (process.runner == Runner::Stopping).then_some(Duration::from_secs(60));
        if let Some(facts) = released(process, event, &value, exiting) {
            return Input::Planned(facts);
        }
        let cycle = self.load(process, event, &value);
        process.reason = Some(cycle.reason);
        let handling = cycle.handling(self);
        let is_required = self.handlers.daemon || !self.handlers.deleting.is_empty();
        Input::Planned(Facts {
            event,
            deleting: is_deleting(&value),
            finalizer: Finalizer::new(is_required, has_finalizer(&value)),
            reason: Some(cycle.reason),
            exiting,
            outdated: handling.is_outdated(&cycle.attempted),
            patch: pending(&process.merge),
            fingerprint: fingerprint(cycle.reason, handling.essences, &cycle.state),
            uncertain: false,
        })
    }

    fn load(&self, process: &Process, event: EventType, value: &Value) -> Cycle {
        let body = Body::new(value.clone());
        let new = Arc::new(self.essence(value));
        let old = self.diffbase.fetch(&body).unwrap();
        let changes = diff(old.as_ref().unwrap_or(&Value::Null), &new);
        let compared = match &old {
            None => Compared::Unhandled,
            Some(_) if changes.is_empty() => Compared::Unchanged,
            Some(_) => Compared::Changed,
        };
        let sighting = if process.noticed_by_listing && !process.handled_once {
            Sighting::Initial
        } else {
            Sighting::Later
        };
        let detected = detect(event, &body, FINALIZER, compared, sighting);
        let owned = self.owned();
        let state = State::load(&self.progress, &body, owned.iter()).unwrap();
        let attempted = load_attempted(self.storages(), &body, &state).unwrap();
        Cycle {
            body,
            new,
            old,
            reason: detected.reason,
            initial: detected.initial,
            owned,
            state,
            attempted,
        }
    }

    fn selected(&self, cycle: &Cycle) -> Vec<&'static str> {
        let mut ids = match cycle.reason {
            Reason::Create | Reason::Update => self.handlers.changing.to_vec(),
            Reason::Delete => self.handlers.deleting.to_vec(),
            _ => Vec::new(),
        };
        if cycle.initial && !matches!(cycle.reason, Reason::Create | Reason::Delete) {
            ids.extend(self.handlers.resuming);
        }
        ids
    }

    fn begin(&self, process: &mut Process, now: Moment) -> (Cycle, Patch) {
        let (event, value) = process.newest.clone().unwrap();
        let mut cycle = self.load(process, event, &value);
        let ids: Vec<HandlerId> = self
            .selected(&cycle)
            .into_iter()
            .map(HandlerId::from)
            .collect();
        let mut state = std::mem::take(&mut cycle.state);
        let mut patch = Patch::default();
        let time = timestamp(now);
        let handling = cycle.handling(self);
        handling
            .supersede(&mut state, ids.iter(), time, &mut patch)
            .unwrap();
        cycle.state = state;
        (cycle, patch)
    }

    fn run(&self, process: &mut Process, _reason: Reason, now: Moment) -> Option<Input> {
        let (event, value) = process.newest.clone().unwrap();
        let cycle = self.load(process, event, &value);
        let is_outdated = cycle.handling(self).is_outdated(&cycle.attempted);
        if is_outdated {
            return Some(self.rebase(process, &cycle));
        }
        let (cycle, mut patch) = self.begin(process, now);
        let selected = self.selected(&cycle);
        if selected.is_empty() {
            let handling = cycle.handling(self);
            if cycle.reason != Reason::Delete && !cycle.attempted.outdated(&cycle.new).is_empty() {
                return Some(self.rebase(process, &cycle));
            }
            process.handled_once = true;
            let concluded = handling.finish(&cycle.state, &mut patch).unwrap();
            self.keep(process, &cycle, concluded.erasure, &mut patch);
            return Some(finished(process, patch, None, false));
        }
        let time = timestamp(now);
        let due = selected.iter().filter(|id| cycle.state.is_awake(id, time));
        let picked = due.min_by_key(|id| cycle.state.attempt(id).map_or(0, |(retries, _)| retries));
        match picked {
            Some(handler) => {
                process.phase = Phase::Calling { handler };
                None
            }
            None => Some(self.conclude(process, &cycle, &[], patch, now)),
        }
    }

    fn rebase(&self, process: &mut Process, cycle: &Cycle) -> Input {
        let handling = cycle.handling(self);
        let mut patch = Patch::default();
        handling
            .follow_up(&cycle.state, &cycle.attempted, &mut patch)
            .unwrap();
        finished(process, patch, Some(Duration::ZERO), false)
    }

    /// Handles the return of a handler. `current`: the object on the server.
    pub(crate) fn return_from_handler(
        &self,
        process: &mut Process,
        succeeds: bool,
        current: Option<&Value>,
        now: Moment,
    ) {
        let Phase::Calling { handler } = std::mem::take(&mut process.phase) else {
            return;
        };
        let (mut cycle, patch) = self.begin(process, now);
        cycle
            .state
            .apply(handler, &attempt(succeeds), timestamp(now));
        if let Some(current) = current.filter(|_| self.has(Mutation::NewestStored)) {
            cycle.new = Arc::new(self.essence(current));
        }
        let made = [Attempted {
            id: handler.into(),
            record: cycle.state.record(handler).unwrap().clone(),
        }];
        let input = self.conclude(process, &cycle, &made, patch, now);
        self.feed(process, input, now);
    }

    fn conclude(
        &self,
        process: &mut Process,
        cycle: &Cycle,
        made: &[Attempted],
        mut patch: Patch,
        now: Moment,
    ) -> Input {
        let runner_exits = if process.runner == Runner::Stopping {
            RunnerExits::Awaited
        } else {
            RunnerExits::Exited
        };
        let attempts = Attempts {
            prior: &cycle.attempted,
            made,
            after: &|| Arc::clone(&cycle.new),
        };
        let handling = cycle.handling(self);
        let concluded = handling
            .conclude(&cycle.state, attempts, runner_exits, &mut patch)
            .unwrap();
        let due = match concluded.conclusion {
            Conclusion::Unfinished => cycle.state.delays(timestamp(now)).into_iter().min(),
            Conclusion::Outdated | Conclusion::UpdateFollows => Some(Duration::ZERO),
            Conclusion::Kept | Conclusion::Finished => None,
        };
        process.handled_once |= !matches!(
            concluded.conclusion,
            Conclusion::Unfinished | Conclusion::Kept | Conclusion::Outdated
        );
        self.keep(process, cycle, concluded.erasure, &mut patch);
        finished(process, patch, due, !made.is_empty())
    }

    fn write(&self, process: &mut Process, finalizer: Option<FinalizerChange>) {
        let merge = std::mem::replace(&mut process.merge, json!({}));
        let newest = process.newest.as_ref().map(|(_, body)| Arc::clone(body));
        let release = process.release.as_ref();
        let release = release.filter(|_| finalizer == Some(FinalizerChange::Release));
        let request = Request {
            merge: if merge.is_null() { json!({}) } else { merge },
            finalizer,
            erasure: release.map_or(Value::Null, |kept| kept.0.erasure().clone().into()),
            transformed: process.transformed.take(),
            base: newest.unwrap_or_default(),
            merged: None,
            last: json!({}),
            is_guarded: self.has(Mutation::OutcomeForgotten),
        };
        process.phase = Phase::Sending {
            request,
            outcome: None,
        };
    }

    /// Handles the response to a request.
    pub(crate) fn respond(&self, process: &mut Process, outcome: Outcome, now: Moment) {
        process.phase = Phase::Waiting;
        let input = match outcome {
            Outcome::NotFound => {
                process.newest = None;
                Input::NotFound
            }
            Outcome::Accepted(object) => Input::Written(response(process, object)),
            Outcome::Conflict(object) => {
                Input::Conflicted(object.map(|object| response(process, Some(object))))
            }
        };
        self.feed(process, input, now);
    }

    /// Handles a failed request, or a lost response.
    pub(crate) fn fail_write(&self, process: &mut Process, now: Moment) {
        let Phase::Sending {
            mut request,
            outcome,
        } = std::mem::take(&mut process.phase)
        else {
            return;
        };
        if outcome.is_some() {
            request.merge = std::mem::replace(&mut request.last, json!({}));
        }
        process.unsent = Some(request);
        self.feed(process, Input::WriteFailed { rejected: false }, now);
    }

    pub(crate) fn call(&self, process: &Process) -> Option<Call> {
        let Phase::Calling { handler } = process.phase else {
            return None;
        };
        let (_, body) = process.newest.clone()?;
        Some(Call {
            handler,
            reason: process.reason?,
            body,
        })
    }
}

/// A cause with the progress of its handlers.
pub(super) struct Cycle {
    body: Body,
    new: Arc<Value>,
    old: Option<Value>,
    reason: Reason,
    initial: bool,
    pub(super) owned: Vec<HandlerId>,
    pub(super) state: State,
    attempted: AttemptedEssences,
}

impl Cycle {
    fn handling<'a, R: Rules>(&'a self, operator: &'a Operator<R>) -> Handling<'a> {
        Handling {
            storages: operator.storages(),
            body: &self.body,
            reason: self.reason,
            essences: Essences {
                old: self.old.as_ref(),
                new: &self.new,
            },
            owned: &self.owned,
        }
    }
}

fn finished(process: &mut Process, patch: Patch, due: Option<Duration>, attempted: bool) -> Input {
    process.transformed = None;
    if let Some((_, newest)) = process.newest.as_ref().filter(|_| !patch.fns.is_empty()) {
        let mut transformed = Value::clone(newest);
        for function in &patch.fns {
            function.call(&mut transformed).unwrap();
        }
        process.transformed = Some(transformed);
    }
    process.merge = Value::Object(patch.merge);
    let patch = match process.transformed {
        Some(_) => PendingPatch::Some,
        None => pending(&process.merge),
    };
    Input::HandlersFinished(Handled {
        due,
        attempted,
        patch,
        failed: false,
    })
}

fn response(process: &mut Process, object: Option<Arc<Value>>) -> Response {
    let Some(object) = object else {
        return Response::NONE;
    };
    let before = process.newest.as_ref().map(|(_, body)| Value::clone(body));
    let before = Body::new(before.unwrap_or_default());
    let judged = Response::new(&before, &Body::new(Value::clone(&object)), || false);
    process.response = Some(object);
    judged
}

pub(super) fn pending(merge: &Value) -> PendingPatch {
    let is_empty = merge.as_object().is_none_or(serde_json::Map::is_empty);
    if is_empty {
        PendingPatch::Empty
    } else {
        PendingPatch::Some
    }
}

/// Returns the version of an object.
pub(crate) fn number(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or(0)
}
