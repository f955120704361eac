//! One process of the operator in the model. All decisions are made by `kopf_core::object`; here,
//! its actions are connected to the world: calls of handlers, requests, and the daemon.

mod reconciling;
mod writing;

use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use kopf_core::body::Body;
use kopf_core::cause::{EventType, Reason};
use kopf_core::handler::HandlerId;
use kopf_core::object::cycle::{Begun, Calls, Cycle, Ended, Means};
use kopf_core::object::handling::Attempted;
use kopf_core::object::reconciling::Reconciling;
use kopf_core::object::{
    Action, Handled, Input, Moment, Now, Object, PendingPatch, Policy, Rules, Runners, Survey,
    Version, WritePlan,
};
use kopf_core::patch::Patch;
use serde_json::Value;

use super::coverage::Coverage;
use super::handlers::{Handlers, attempt, mark, timestamp};
use super::mutations::Mutation;
use super::server::{Outcome, Request};

/// The daemon of the object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Runner {
    #[default]
    Absent,
    Running,
    Stopping,
}

/// The next event that the process waits for.
#[derive(Clone, Debug, Default)]
pub(crate) enum Phase {
    /// The next input.
    #[default]
    Waiting,
    /// A handler.
    Calling {
        handler: HandlerId,
        cycle: Arc<Cycle>,
        runners: Runners,
    },
    /// A reconcile handler.
    Reconciling {
        handler: HandlerId,
        reconciling: Arc<Reconciling>,
    },
    /// A response.
    Sending {
        request: Request,
        outcome: Option<Outcome>,
    },
}

impl Hash for Phase {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Waiting => 0.hash(state),
            // The cycle follows from the object.
            Self::Calling { handler, cycle, .. } => {
                (handler, format!("{:?}", cycle.progress)).hash(state);
            }
            Self::Reconciling {
                handler,
                reconciling,
            } => (handler, format!("{:?}", reconciling.progress)).hash(state),
            Self::Sending { request, outcome } => (request, outcome).hash(state),
        }
    }
}

/// One process of the operator.
#[derive(Clone, Debug, Default)]
pub(crate) struct Process {
    pub(crate) object: Object,
    pub(crate) phase: Phase,
    pub(crate) runner: Runner,
    /// The next evaluation of the filters of the daemon fails.
    pub(crate) is_filter_broken: bool,
    /// Another replica is to handle the object.
    pub(crate) is_leaving: bool,
    unsent: Option<Request>,
    response: Option<Arc<Value>>,
    /// The outcomes of a deletion to be recorded now.
    pub(crate) record: Option<Patch>,
}

impl Hash for Process {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Object {
            machine,
            memory,
            newest,
            patch,
            is_patched_by_children,
            woken,
        } = &self.object;
        let newest = newest
            .as_ref()
            .map(|newest| (newest.event, newest.body.value()));
        (machine, newest, is_patched_by_children, woken).hash(state);
        (
            memory.noticed_by_listing,
            memory.fully_handled_once,
            memory.covered,
        )
            .hash(state);
        if !memory.is_plain() {
            format!("{memory:?}").hash(state);
        }
        if !patch.is_empty() {
            format!("{patch:?}").hash(state);
        }
        (
            &self.phase,
            self.runner,
            self.is_filter_broken,
            self.is_leaving,
        )
            .hash(state);
        (&self.unsent, &self.response).hash(state);
    }
}

impl Process {
    /// Returns a process that begins to handle an object.
    pub(crate) fn new(object: Object) -> Self {
        Self {
            object,
            ..Self::default()
        }
    }
}

/// A call of a handler.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) handler: HandlerId,
    pub(crate) reason: Reason,
    pub(crate) body: Body,
}

/// The end of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Returns {
    Success,
    /// A success with the request for another call.
    Requeue,
    Error,
}

/// The data that the actions of one step pass to each other.
#[derive(Default)]
struct Relay {
    cycle: Option<Cycle>,
    reconciling: Option<Reconciling>,
    runners: Runners,
    settled: Option<Arc<Value>>,
}

/// The rules and handlers of an operator.
pub(crate) struct Operator<R> {
    pub(crate) rules: R,
    pub(crate) handlers: Handlers,
    pub(crate) policy: Policy<()>,
    /// A mutation of the process; those of the rules are not here.
    pub(crate) mutation: Option<Mutation>,
    pub(crate) coverage: RefCell<Coverage>,
}

impl<R: Rules> Operator<R> {
    pub(crate) fn new(rules: R, handlers: Handlers, mutation: Option<Mutation>) -> Self {
        Self {
            rules,
            handlers,
            policy: handlers.policy(mutation == Some(Mutation::LostUpdates)),
            mutation,
            coverage: RefCell::default(),
        }
    }

    pub(crate) fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    fn means(&self) -> Means<'_, ()> {
        Means {
            policy: &self.policy,
            storages: self.policy.storages(),
            filters: &(),
        }
    }

    /// Returns the tracked part of an object.
    pub(crate) fn essence(&self, object: &Arc<Value>) -> Value {
        self.policy
            .essence(&Body::from(Arc::clone(object)))
            .unwrap()
    }

    /// Takes an event.
    pub(crate) fn take(
        &self,
        process: &mut Process,
        event: EventType,
        body: &Arc<Value>,
        now: Moment,
    ) {
        let object = &mut process.object;
        if object.newest.is_none() && event == EventType::Listed {
            object.memory.noticed_by_listing = true;
        }
        let body = Body::from(Arc::clone(body));
        let version = body.resource_version().map(Into::into);
        let covered = object.memory.covered;
        if covered.is_some_and(|covered| covered.covers(event, version.as_deref(), now)) {
            return;
        }
        let is_admitted = object.admits(event, version.as_deref(), now);
        self.feed(process, Input::Event { event, version }, now);
        if is_admitted {
            process.object.newest = Some(Version { event, body });
        }
        self.catch_up(process, now);
    }

    /// Handles the newest version.
    pub(crate) fn catch_up(&self, process: &mut Process, now: Moment) {
        if let Some(newest) = &process.object.newest {
            let (event, snapshot) = (newest.event, newest.snapshot());
            self.feed(process, Input::Newest { event, snapshot }, now);
        }
    }

    /// Feeds an input, and performs the actions until a handler or a response is waited for.
    pub(crate) fn feed(&self, process: &mut Process, input: Input, now: Moment) {
        self.feed_with(process, input, Relay::default(), now);
    }

    fn feed_with(&self, process: &mut Process, input: Input, mut relay: Relay, now: Moment) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            self.coverage.borrow_mut().note_input(&input);
            let actions = process.object.step(input, &self.rules, now);
            for action in actions {
                self.coverage.borrow_mut().note_action(&action);
                next = self.perform(process, &action, &mut relay, now);
                if next.is_some() {
                    break;
                }
            }
        }
    }

    fn perform(
        &self,
        process: &mut Process,
        action: &Action,
        relay: &mut Relay,
        now: Moment,
    ) -> Option<Input> {
        match action {
            Action::Plan => return Some(self.plan(process, relay, now)),
            Action::Reconcile => return self.reconcile(process, relay, now),
            Action::Run(_) => return self.run(process, relay, now),
            Action::Write(change) => self.write(process, *change, relay),
            Action::Touch => {
                let (mut patch, body) = (Patch::default(), newest(process));
                let storage = &self.policy.persistence().progress_storage;
                let time = timestamp(now).to_string();
                storage.touch(&body, &mut patch, Some(&time)).unwrap();
                self.send(process, WritePlan::new(patch));
            }
            Action::Resend => {
                let mut request = process.unsent.take().unwrap();
                request.base = Arc::new(newest(process).value().clone());
                let outcome = None;
                process.phase = Phase::Sending { request, outcome };
            }
            Action::DropUnsent => process.unsent = None,
            Action::Record if !self.has(Mutation::RefusalNotRecorded) => self.record(process),
            Action::AdoptResponse => {
                if let Some(response) = process.response.take() {
                    let body = Body::from(response);
                    let version = body.resource_version().map(str::to_owned);
                    process.object.adopt(version.as_deref(), || Some(body));
                }
            }
            Action::Forget => {
                process.runner = Runner::Absent;
                (process.unsent, process.response) = (None, None);
            }
            Action::Index
            | Action::CallEventHandlers
            | Action::Record
            | Action::Cover(_)
            | Action::Log(_)
            | Action::ReportFailure(_) => {}
        }
        None
    }

    /// Starts or stops the daemon.
    fn tend(&self, process: &mut Process, version: &Version) -> Runners {
        if !self.handlers.daemon || version.event == EventType::Deleted {
            return Runners::default();
        }
        let uncertain = std::mem::take(&mut process.is_filter_broken);
        match (process.runner, version.body.is_deleting()) {
            (Runner::Absent, false) if !uncertain => process.runner = Runner::Running,
            (Runner::Running, true) => process.runner = Runner::Stopping,
            _ => {}
        }
        let is_stopping = process.runner == Runner::Stopping;
        Runners {
            required: !uncertain || process.runner != Runner::Absent,
            exiting: is_stopping.then_some(Duration::from_secs(60)),
            uncertain,
        }
    }

    fn plan(&self, process: &mut Process, relay: &mut Relay, now: Moment) -> Input {
        let Some(version) = process.object.newest.clone() else {
            return Input::NoVersion;
        };
        let runners = self.tend(process, &version);
        let object = &mut process.object;
        let survey = match Survey::of_released(&self.policy, &object.memory, &version) {
            Some(survey) => survey,
            None => {
                let notes = &mut Vec::new();
                let mut survey =
                    Survey::new(self.means(), object, &version, runners, now, notes).unwrap();
                if let Some(reconciling) = &mut survey.reconciling {
                    reconciling.load(self.policy.storages()).unwrap();
                }
                if let Some(cycle) = &mut survey.cycle
                    && cycle.recall(&self.policy, &object.memory).is_some()
                {
                    cycle.load(&self.policy, self.policy.storages()).unwrap();
                }
                survey
            }
        };
        let facts = survey.facts(object, &version, runners, both(now));
        (relay.cycle, relay.runners) = (survey.cycle, runners);
        relay.reconciling = survey.reconciling;
        Input::Planned(facts)
    }

    /// Selects the handlers, and calls the one with the fewest attempts, as by default.
    fn run(&self, process: &mut Process, relay: &mut Relay, now: Moment) -> Option<Input> {
        let mut cycle = relay.cycle.take()?;
        let (time, notes) = (timestamp(now), &mut Vec::new());
        let begun = cycle.begin(self.means(), &mut process.object, time, notes);
        let handlers = match begun.unwrap() {
            Begun::Ended(ended) => return Some(self.end(process, ended, false, relay)),
            Begun::Call { handlers, .. } => handlers,
        };
        let ids = handlers.iter().map(|handler| &handler.id);
        let due = ids.filter(|id| cycle.progress.is_awake(id, time));
        let picked = due.min_by_key(|id| cycle.progress.attempt(id).map_or(0, |(tries, _)| tries));
        if let Some(handler) = picked.cloned() {
            process.phase = Phase::Calling {
                handler,
                cycle: Arc::new(cycle),
                runners: relay.runners,
            };
            return None;
        }
        let ended = self.conclude(process, &cycle, &[], relay.runners, now);
        Some(self.end(process, ended, false, relay))
    }

    fn conclude(
        &self,
        process: &mut Process,
        cycle: &Cycle,
        made: &[Attempted],
        runners: Runners,
        now: Moment,
    ) -> Ended {
        let calls = Calls {
            made,
            any: !made.is_empty(),
            exits: runners.exits(),
            ended: timestamp(now),
        };
        let (object, notes) = (&mut process.object, &mut Vec::new());
        let ended = cycle.conclude(self.means(), object, &calls, || (), notes);
        if self.has(Mutation::ErasedEarly)
            && let Some(release) = &object.memory.release
        {
            let merge = release.erasure().clone();
            let fns = Vec::new();
            object.patch.merge_from(Patch { merge, fns });
        }
        if self.has(Mutation::OutcomeForgotten) {
            object.memory.release = None;
        }
        ended
    }

    fn end(&self, process: &Process, ended: Ended, attempted: bool, relay: &mut Relay) -> Input {
        relay.settled = ended.settled;
        Input::HandlersFinished(Handled {
            due: ended.due,
            attempted,
            patch: PendingPatch::new(process.object.patch.is_empty()),
            failed: ended.failure.is_some(),
        })
    }

    /// Handles the return of a handler. `current`: the object on the server.
    pub(crate) fn return_from_handler(
        &self,
        process: &mut Process,
        returns: Returns,
        current: Option<&Arc<Value>>,
        now: Moment,
    ) {
        let succeeds = returns != Returns::Error;
        let (handler, cycle, runners) = match std::mem::take(&mut process.phase) {
            Phase::Calling {
                handler,
                cycle,
                runners,
            } => (handler, cycle, runners),
            Phase::Reconciling {
                handler,
                reconciling,
            } => {
                let called = (&*handler, reconciling);
                return self.return_from_reconciliation(process, called, returns, now);
            }
            _ => return,
        };
        let mut cycle = Arc::unwrap_or_clone(cycle);
        let outcome = attempt(succeeds);
        cycle.progress.apply(&handler, &outcome, timestamp(now));
        let mut changing = self.handlers.changing.iter();
        if let Some(id) = changing.find(|id| ***id == *handler).copied()
            && succeeds
            && self.handlers.marks
        {
            process.object.patch.add_fn(mark(id));
        }
        let record = cycle.progress.record(&handler).unwrap().clone();
        let id = HandlerId::clone(&handler);
        let made = [Attempted { id, record }];
        let ended = self.conclude(process, &cycle, &made, runners, now);
        if let (Some(current), Some(_)) = (current, &ended.settled)
            && self.has(Mutation::NewestStored)
        {
            let (body, patch) = (&cycle.cause.body, &mut process.object.patch);
            let diffbase = self.policy.storages().diffbase;
            diffbase.store(body, patch, &self.essence(current)).unwrap();
        }
        let mut relay = Relay::default();
        let input = self.end(process, ended, true, &mut relay);
        self.feed_with(process, input, relay, now);
    }

    pub(crate) fn call(&self, process: &Process) -> Option<Call> {
        match &process.phase {
            Phase::Calling { handler, cycle, .. } => Some(Call {
                handler: HandlerId::clone(handler),
                reason: cycle.reason(),
                body: cycle.cause.body.clone(),
            }),
            Phase::Reconciling {
                handler,
                reconciling,
            } => Some(Call {
                handler: HandlerId::clone(handler),
                reason: Reason::Noop,
                body: reconciling.cause.body.clone(),
            }),
            Phase::Waiting | Phase::Sending { .. } => None,
        }
    }

    /// Begins to record the outcome of a deletion whose finalizer could not be removed.
    pub(crate) fn record(&self, process: &mut Process) {
        let Object { memory, newest, .. } = &process.object;
        if let (Some(release), Some(version)) = (&memory.release, newest)
            && !release.is_recorded()
        {
            let (storages, mut patch) = (self.policy.storages(), Patch::default());
            let recorded = release.record(storages.progress, &version.body, &mut patch);
            recorded.unwrap();
            process.record = Some(patch);
        }
    }

    /// Continues from the version on which the outcome of a deletion is recorded.
    pub(crate) fn note_recorded(&self, process: &mut Process, object: Arc<Value>) {
        let body = Body::from(object);
        if let Some(release) = &mut process.object.memory.release {
            let progress = self.policy.storages().progress;
            release.note_recorded(progress, &body).unwrap();
        }
        let version = body.resource_version().map(str::to_owned);
        process.object.adopt(version.as_deref(), || Some(body));
    }

    /// Returns `true` if the object has a record of the success of a handler.
    pub(crate) fn is_recorded(&self, handler: &str, object: &Arc<Value>) -> bool {
        let body = Body::from(Arc::clone(object));
        let record = self.policy.storages().progress.fetch(handler, &body);
        record.unwrap().is_some_and(|record| record.success)
    }
}

/// Returns a moment on both clocks.
fn both(moment: Moment) -> Now {
    let time = timestamp(moment);
    Now { moment, time }
}

fn newest(process: &Process) -> Body {
    let newest = process.object.newest.as_ref();
    newest.map_or_else(|| Body::new(Value::Null), |newest| newest.body.clone())
}
