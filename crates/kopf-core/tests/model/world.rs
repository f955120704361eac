//! The world of the model: a server, a user, an operator that may crash, and what must hold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kopf_core::cause::{EventType, Reason};
use kopf_core::object::{FinalizerChange, Input, Moment, Rules, State};
use serde_json::Value;

use super::explorer::Model;
use super::operator::{Call, Operator, Phase, Process, Runner, number};
use super::server::{Outcome, Server, has_finalizer};

/// The maximum number of each disturbance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) edits: u8,
    pub(crate) deletions: u8,
    pub(crate) crashes: u8,
    /// Lost connections: pending events are dropped, and the object is listed.
    pub(crate) relistings: u8,
    /// Writes that fail, before or after the server has applied them.
    pub(crate) failures: u8,
    /// Temporary errors of handlers.
    pub(crate) retries: u8,
    /// Writes of another client, which handlers ignore.
    pub(crate) beats: u8,
    /// Another client has a finalizer on the object, and removes it.
    pub(crate) others: u8,
    /// Deadlines that pass before pending events arrive, or before the daemon exits.
    pub(crate) delays: u8,
}

/// A step of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Edit(i64),
    Delete,
    Beat,
    RemoveOtherFinalizer,
    Deliver,
    Relist,
    HandlerSucceeds,
    HandlerFails,
    Apply,
    Respond,
    FailWrite,
    TimePasses,
    RunnerExits,
    Crash,
    Start,
}

/// Facts about one handler, independently of the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Known {
    /// The last call that has returned.
    last: Option<Returned>,
    /// The last call that is recorded on the object. A crash undoes the others.
    recorded: Option<Returned>,
    /// The object of the current call.
    current: Option<Called>,
}

impl Known {
    /// Returns the object of the last call, if it has succeeded.
    fn success(&self) -> Option<&Called> {
        let last = self.last.as_ref().filter(|last| last.succeeded);
        last.map(|last| &last.called)
    }
}

/// The object that a handler was called with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Called {
    essence: Arc<Value>,
    generation: Option<i64>,
}

/// A call that has returned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Returned {
    called: Called,
    succeeded: bool,
}

/// A state of the world.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) process: Option<Process>,
    pub(crate) budget: Budget,
    pub(crate) now: Moment,
    known: BTreeMap<&'static str, Known>,
    /// The version of the last own write that the current process knows of.
    own_version: u64,
    /// Handlers of the deletion that have succeeded. A crash undoes those that were never recorded.
    deleted: Vec<&'static str>,
    /// Handlers of the deletion whose success was recorded on the object at any time.
    recorded: Vec<&'static str>,
    /// Writes since the last step of the user, a fault, or a handler.
    idle_writes: u8,
}

impl World {
    /// Returns `true` if something else could happen before the next deadline.
    fn is_late(&self) -> bool {
        let process = self.process.as_ref();
        let is_exiting = process.is_some_and(|process| process.runner == Runner::Stopping);
        is_exiting || !self.server.events.is_empty()
    }
}

/// Limit of writes that nothing has given a reason for.
const IDLE_WRITES: u8 = 6;

/// The model of an operator with these rules.
pub(crate) struct Universe<R> {
    pub(crate) operator: Operator<R>,
}

impl<R: Rules> Universe<R> {
    /// Returns a world with one object, and an operator that has just started.
    pub(crate) fn begin(&self, budget: Budget) -> World {
        let mut world = World {
            process: Some(Process::default()),
            budget,
            ..World::default()
        };
        world.server.create(budget.others > 0);
        world
    }

    fn call(&self, world: &mut World) -> Result<(), String> {
        let Some(process) = &world.process else {
            return Ok(());
        };
        let Some(Call {
            handler,
            reason,
            body,
        }) = self.operator.call(process)
        else {
            return Ok(());
        };
        let known = world.known.entry(handler).or_default();
        if known.current.is_some() {
            return Ok(());
        }
        if number(&body) < world.own_version {
            return Err(format!(
                "own writes first: {handler} is called on an outdated version"
            ));
        }
        let called = Called {
            essence: Arc::new(self.operator.essence(&body)),
            generation: body["metadata"]["generation"].as_i64(),
        };
        let is_change = matches!(reason, Reason::Create | Reason::Update);
        if known.success() == Some(&called)
            && is_change
            && !self.operator.handlers.resuming.contains(&handler)
        {
            return Err(format!(
                "durable progress: {handler} is called again for the same version"
            ));
        }
        if reason == Reason::Delete && world.deleted.contains(&handler) {
            return Err(format!(
                "durable progress: {handler} is called again for the same deletion"
            ));
        }
        known.current = Some(called);
        world.idle_writes = 0;
        Ok(())
    }

    /// Notes the successes of a deletion that are recorded on the object.
    fn note_records(&self, world: &mut World) {
        let Some(object) = &world.server.object else {
            return;
        };
        for handler in self.operator.handlers.deleting {
            if !world.recorded.contains(handler) && self.operator.is_recorded(handler, object) {
                world.recorded.push(handler);
            }
        }
    }

    /// Fails a write. Outcomes of a deletion must be recorded then.
    fn fail_write(&self, world: &mut World) -> Result<(), String> {
        let Some(process) = &mut world.process else {
            return Ok(());
        };
        let is_release = matches!(
            &process.phase,
            Phase::Sending { request, outcome: None }
                if request.finalizer == Some(FinalizerChange::Release)
        );
        self.operator.fail_write(process, world.now);
        if let Some(merge) = process.record.take()
            && let Some(object) = world.server.merge(&merge)
        {
            self.operator.note_recorded(process, object);
        }
        self.note_records(world);
        let is_recorded = |handler| world.recorded.contains(handler);
        if is_release && world.server.object.is_some() && !world.deleted.iter().all(is_recorded) {
            return Err("recorded refusals: a restart would repeat the deletion".to_owned());
        }
        Ok(())
    }

    fn handler_returns(&self, world: &mut World, succeeds: bool) {
        let Some(process) = &mut world.process else {
            return;
        };
        let Some(Call {
            handler, reason, ..
        }) = self.operator.call(process)
        else {
            return;
        };
        let current = world.server.object.as_deref();
        self.operator
            .return_from_handler(process, succeeds, current, world.now);
        let known = world.known.entry(handler).or_default();
        let called = known.current.take();
        known.last = called.map(|called| Returned {
            called,
            succeeded: succeeds,
        });
        if succeeds && reason == Reason::Delete {
            world.deleted.push(handler);
        }
    }

    fn apply(&self, world: &mut World) -> Result<(), String> {
        let Some(process) = &mut world.process else {
            return Ok(());
        };
        let runner = process.runner;
        let Phase::Sending { request, outcome } = &mut process.phase else {
            return Ok(());
        };
        let is_held = |server: &Server| server.object.as_deref().is_some_and(has_finalizer);
        let was_held = is_held(&world.server);
        let releases = request.finalizer == Some(FinalizerChange::Release);
        let result = world.server.apply(request);
        outcome.clone_from(&result);
        let is_written = matches!(result, None | Some(Outcome::Accepted(_)));
        if is_written {
            for known in world.known.values_mut() {
                known.recorded.clone_from(&known.last);
            }
        }
        self.note_records(world);
        if result.is_some() {
            world.idle_writes = world.idle_writes.saturating_add(1);
        }
        if world.idle_writes > IDLE_WRITES {
            return Err("bounded reaction: too many writes without a reason".to_owned());
        }
        if was_held && !is_held(&world.server) && releases {
            let missing = self.operator.handlers.deleting.iter();
            if missing
                .clone()
                .any(|handler| !world.deleted.contains(handler))
            {
                return Err(
                    "finalizer: it goes before the delete handlers have succeeded".to_owned(),
                );
            }
            if runner != Runner::Absent {
                return Err("finalizer: it goes before the daemon has exited".to_owned());
            }
        }
        Ok(())
    }

    fn respond(&self, world: &mut World) {
        let Some(process) = &mut world.process else {
            return;
        };
        let Phase::Sending {
            outcome: Some(outcome),
            ..
        } = process.phase.clone()
        else {
            return;
        };
        if let Outcome::Accepted(Some(object)) | Outcome::Conflict(Some(object)) = &outcome {
            world.own_version = world.own_version.max(number(object));
        }
        self.operator.respond(process, outcome, world.now);
    }

    fn deliver(&self, world: &mut World) {
        let Some(process) = &mut world.process else {
            return;
        };
        if let Some(event) = world.server.events.pop_front() {
            self.operator
                .take(process, event.event, &event.body, world.now);
        }
    }

    /// Handles a lost connection: pending events are dropped, and the object is listed.
    fn relist(&self, world: &mut World) {
        world.server.events.clear();
        let Some(process) = &mut world.process else {
            return;
        };
        match world.server.object.clone() {
            Some(object) => self
                .operator
                .take(process, EventType::Listed, &object, world.now),
            None => {
                self.operator.feed(process, Input::Vanished, world.now);
                *process = Process::default();
            }
        }
    }

    /// Ends the process. State that is not written is lost.
    fn crash(&self, world: &mut World) {
        world.process = None;
        world.own_version = 0;
        world.deleted.clone_from(&world.recorded);
        for known in world.known.values_mut() {
            known.current = None;
            known.last.clone_from(&known.recorded);
        }
    }

    fn time_passes(&self, world: &mut World) {
        let is_late = world.is_late();
        let Some(process) = &mut world.process else {
            return;
        };
        if let Some(deadline) = process.machine.deadline() {
            if is_late {
                world.budget.delays -= 1;
            }
            if deadline.since(world.now) >= Duration::from_secs(1) {
                world.idle_writes = 0;
            }
            world.now = world.now.max(deadline);
            self.operator.feed(process, Input::Deadline, world.now);
        }
    }

    fn operator_steps(&self, world: &World, process: &Process, steps: &mut Vec<Step>) {
        match &process.phase {
            Phase::Calling { .. } => {
                steps.push(Step::HandlerSucceeds);
                if world.budget.retries > 0 {
                    steps.push(Step::HandlerFails);
                }
            }
            Phase::Sending { outcome: None, .. } => {
                steps.push(Step::Apply);
                if world.budget.failures > 0 {
                    steps.push(Step::FailWrite);
                }
            }
            Phase::Sending { .. } => {
                steps.push(Step::Respond);
                if world.budget.failures > 0 {
                    steps.push(Step::FailWrite);
                }
            }
            Phase::Waiting => {
                if !world.server.events.is_empty() {
                    steps.push(Step::Deliver);
                }
                let is_late = world.is_late();
                if process.machine.deadline().is_some() && !(is_late && world.budget.delays == 0) {
                    steps.push(Step::TimePasses);
                }
                if world.budget.relistings > 0 {
                    steps.push(Step::Relist);
                }
            }
        }
        if process.runner == Runner::Stopping {
            steps.push(Step::RunnerExits);
        }
    }
}

impl<R: Rules> Model for Universe<R> {
    type State = World;
    type Step = Step;

    fn steps(&self, world: &World) -> Vec<Step> {
        let mut steps = Vec::new();
        if world.server.object.is_some() && !world.server.is_deleting() {
            if world.budget.edits > 0 {
                let field = world
                    .server
                    .object
                    .as_ref()
                    .map_or(0, |o| o["spec"]["field"].as_i64().unwrap_or(0));
                steps.push(Step::Edit(if field == 1 { 2 } else { 1 }));
            }
            if world.budget.deletions > 0 {
                steps.push(Step::Delete);
            }
        }
        if world.server.object.is_some() && world.budget.beats > 0 {
            steps.push(Step::Beat);
        }
        if world.server.is_deleting() && world.server.has_other_finalizer() {
            steps.push(Step::RemoveOtherFinalizer);
        }
        match &world.process {
            None => steps.push(Step::Start),
            Some(process) => {
                self.operator_steps(world, process, &mut steps);
                if world.budget.crashes > 0 {
                    steps.push(Step::Crash);
                }
            }
        }
        steps
    }

    fn make(&self, world: &mut World, step: &Step) -> Result<(), String> {
        if !matches!(
            step,
            Step::Apply | Step::Respond | Step::Deliver | Step::TimePasses
        ) {
            world.idle_writes = 0;
        }
        match step {
            Step::Edit(field) => {
                world.budget.edits -= 1;
                world.server.edit(*field);
            }
            Step::Delete => {
                world.budget.deletions -= 1;
                world.server.delete();
            }
            Step::Beat => {
                world.budget.beats -= 1;
                world.server.beat();
            }
            Step::RemoveOtherFinalizer => world.server.remove_other_finalizer(),
            Step::Deliver => self.deliver(world),
            Step::Relist => {
                world.budget.relistings -= 1;
                self.relist(world);
            }
            Step::HandlerSucceeds => self.handler_returns(world, true),
            Step::HandlerFails => {
                world.budget.retries -= 1;
                self.handler_returns(world, false);
            }
            Step::Apply => self.apply(world)?,
            Step::Respond => self.respond(world),
            Step::FailWrite => {
                world.budget.failures -= 1;
                self.fail_write(world)?;
            }
            Step::TimePasses => self.time_passes(world),
            Step::RunnerExits => {
                if let Some(process) = &mut world.process {
                    process.runner = Runner::Absent;
                    self.operator.feed(process, Input::RunnerExited, world.now);
                }
            }
            Step::Crash => {
                world.budget.crashes -= 1;
                self.crash(world);
            }
            Step::Start => {
                world.process = Some(Process::default());
                self.relist(world);
            }
        }
        self.call(world)
    }

    /// Checks the final state: everything must be handled.
    fn check_end(&self, world: &World) -> Result<(), String> {
        let Some(object) = &world.server.object else {
            return Ok(());
        };
        if world.server.is_deleting() {
            return Err("deletion: the object stays for ever".to_owned());
        }
        if let Some(process) = &world.process
            && !matches!(process.machine.state(), State::Idle)
        {
            return Err(format!(
                "quiescence: the machine is {:?}",
                process.machine.state()
            ));
        }
        let essence = self.operator.essence(object);
        for handler in self.operator.handlers.changing {
            let known = world.known.get(handler);
            let success = known.and_then(Known::success);
            if success.is_none_or(|called| *called.essence != essence) {
                return Err(format!(
                    "at least once: {handler} has not handled the current essence"
                ));
            }
        }
        let own = object["metadata"]["annotations"].as_object();
        let left = own
            .into_iter()
            .flatten()
            .filter(|(key, _)| !key.ends_with("last-handled-configuration"));
        match left.map(|(key, _)| key).next() {
            Some(key) => Err(format!("nothing is leaked: {key} stays on the object")),
            None => Ok(()),
        }
    }
}
