//! The world of the model: a server, a user, an operator that may crash, and what must hold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kopf_core::cause::{EventType, Reason};
use kopf_core::object::{Input, Memory, Moment, Object, Rules};

use super::explorer::Model;
use super::handlers::RETRY;
use super::mutations::Mutation;
use super::process::{Call, Operator, Phase, Process, Returns, Runner};
use super::properties::{Known, Returned};
use super::server::{Outcome, Server, has_finalizer, number};

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
    /// Writes that the server rejects.
    pub(crate) rejections: u8,
    /// Several events at once, of which only the newest is processed.
    pub(crate) batches: u8,
    /// Events that cannot be read.
    pub(crate) garbled: u8,
    /// Failing filters of the daemon.
    pub(crate) broken: u8,
    /// Pauses of the operator.
    pub(crate) pauses: u8,
    /// Changes of the replica that handles the object.
    pub(crate) handovers: u8,
    /// Changed children.
    pub(crate) children: u8,
    /// Temporary errors of handlers.
    pub(crate) retries: u8,
    /// Requests of reconcile handlers for another call.
    pub(crate) requeues: u8,
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
    DeliverBatch,
    Garble,
    BreakFilter,
    Child,
    Pause,
    Resume,
    HandOver,
    Relist,
    HandlerSucceeds,
    HandlerFails,
    HandlerRequeues,
    Apply,
    Respond,
    FailWrite,
    Reject,
    TimePasses,
    RunnerExits,
    Crash,
    Start,
}

/// A state of the world.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct World {
    pub(crate) server: Server,
    pub(crate) process: Option<Process>,
    pub(crate) budget: Budget,
    pub(crate) now: Moment,
    /// The operator is paused.
    pub(super) is_paused: bool,
    pub(super) known: BTreeMap<Arc<str>, Known>,
    /// The version of the last own write that the current process knows of.
    pub(super) own_version: u64,
    /// Handlers of the deletion that have succeeded. A crash undoes those that were never recorded.
    pub(super) deleted: Vec<Arc<str>>,
    /// Handlers of the deletion whose success was recorded on the object at any time.
    pub(super) recorded: Vec<Arc<str>>,
    /// The finalizer was removed after the handlers of the deletion.
    pub(super) is_released: bool,
    /// Writes since the last step of the user, the arrival of such a step, a fault, or a handler.
    pub(super) idle_writes: u8,
}

impl World {
    /// Returns `true` if something else could happen before the next deadline.
    fn is_late(&self) -> bool {
        let process = self.process.as_ref();
        let is_exiting = process.is_some_and(|process| process.runner == Runner::Stopping);
        let is_watching = process.is_some_and(|process| !process.is_leaving) && !self.is_paused;
        is_exiting || is_watching && !self.server.events.is_empty()
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

    /// Fails a write. Outcomes of a deletion must be recorded then.
    fn fail_write(&self, world: &mut World, is_rejected: bool) -> Result<(), String> {
        let Some(process) = &mut world.process else {
            return Ok(());
        };
        let is_release = matches!(
            &process.phase,
            Phase::Sending { request, outcome: None } if request.plan.is_release
        );
        self.operator.fail_write(process, is_rejected, world.now);
        self.write_record(world);
        let is_recorded = |handler| world.recorded.contains(handler);
        if is_release && world.server.object.is_some() && !world.deleted.iter().all(is_recorded) {
            return Err("recorded refusals: a restart would repeat the deletion".to_owned());
        }
        Ok(())
    }

    /// Records the outcomes of a deletion.
    fn write_record(&self, world: &mut World) {
        if let Some(process) = &mut world.process
            && let Some(patch) = process.record.take()
            && let Some(object) = world.server.merge(&patch.merge)
        {
            self.operator.note_recorded(process, object);
        }
        self.note_records(world);
    }

    fn handler_returns(&self, world: &mut World, returns: Returns) {
        let succeeds = returns != Returns::Error;
        let Some(process) = &mut world.process else {
            return;
        };
        let Some(Call {
            handler, reason, ..
        }) = self.operator.call(process)
        else {
            return;
        };
        let current = world.server.object.as_ref();
        self.operator
            .return_from_handler(process, returns, current, world.now);
        let known = world.known.entry(Arc::clone(&handler)).or_default();
        let called = known.current.take();
        known.is_awake = false;
        known.is_owed |= returns == Returns::Requeue;
        known.delayed = (!succeeds).then(|| world.now.after(RETRY));
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
        let releases = request.plan.is_release;
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
            if !self.has_deleted(world) {
                return Err(
                    "finalizer: it goes before the delete handlers have succeeded".to_owned(),
                );
            }
            if runner != Runner::Absent {
                return Err("finalizer: it goes before the daemon has exited".to_owned());
            }
            world.is_released = true;
        }
        Ok(())
    }

    fn respond(&self, world: &mut World) {
        let Some(process) = &mut world.process else {
            return;
        };
        if let Phase::Sending {
            outcome: Some(Outcome::Accepted(Some(object)) | Outcome::Conflict(Some(object))),
            ..
        } = &process.phase
        {
            world.own_version = world.own_version.max(number(object));
        }
        self.operator.respond(process, world.now);
    }

    fn deliver(&self, world: &mut World) {
        let Some(process) = &mut world.process else {
            return;
        };
        if let Some(event) = world.server.events.pop_front() {
            if !event.is_own {
                world.idle_writes = 0;
            }
            self.operator
                .take(process, event.change, &event.body, world.now);
        }
    }

    /// Delivers all events at once: only the newest is processed.
    fn deliver_batch(&self, world: &mut World) {
        while world.server.events.len() > 1 {
            let (Some(process), Some(event)) =
                (&mut world.process, world.server.events.pop_front())
            else {
                return;
            };
            let version = event.body["metadata"]["resourceVersion"].as_str();
            if let Some(version) = version.filter(|_| !self.operator.has(Mutation::ForgetfulQueue))
            {
                let version = version.into();
                let input = Input::Superseded { version };
                self.operator.feed(process, input, world.now);
            }
        }
        self.deliver(world);
    }

    /// Notices a pause, or that another replica is to handle the object: results are written, and
    /// the object is left.
    fn notice(&self, world: &mut World) {
        let Some(process) = &mut world.process else {
            return;
        };
        let is_waiting = |process: &Process| matches!(process.phase, Phase::Waiting);
        if !is_waiting(process) {
            return;
        }
        let is_noticed = world.is_paused && !self.operator.has(Mutation::PauseIgnored)
            || process.is_leaving && !self.operator.has(Mutation::LeftUnwritten);
        if is_noticed {
            let input = process.object.pause();
            self.operator.feed(process, input, world.now);
        }
        let Some(process) = &mut world.process else {
            return;
        };
        let is_free = process.object.can_be_left() || self.operator.has(Mutation::LeftUnwritten);
        if process.is_leaving && is_waiting(process) && is_free {
            self.leave(world);
        }
    }

    /// Lets another replica handle the object, which has handled it before.
    fn leave(&self, world: &mut World) {
        let Some(process) = &mut world.process else {
            return;
        };
        let is_rejected = process.object.machine.is_rejected();
        for known in world.known.values_mut() {
            known.is_awake = false;
            if is_rejected {
                known.last.clone_from(&known.recorded);
            }
        }
        if !self.operator.has(Mutation::LeftUnrecorded) {
            self.operator.record(process);
        }
        let woken = std::mem::take(&mut process.object.woken);
        self.write_record(world);
        let mut other = Process::new(Object::new(Memory::new(true), None));
        if self.operator.has(Mutation::LeftAwake) {
            other.object.woken = woken;
        }
        world.own_version = 0;
        world.process = Some(other);
        self.relist(world);
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
            (known.delayed, known.is_awake) = (None, false);
            known.last.clone_from(&known.recorded);
        }
    }

    fn time_passes(&self, world: &mut World) {
        let is_late = world.is_late();
        let Some(process) = &mut world.process else {
            return;
        };
        if let Some(deadline) = process.object.machine.deadline() {
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
            Phase::Calling { .. } | Phase::Reconciling { .. } => {
                steps.push(Step::HandlerSucceeds);
                let is_reconciling = matches!(process.phase, Phase::Reconciling { .. });
                if is_reconciling && world.budget.requeues > 0 {
                    steps.push(Step::HandlerRequeues);
                }
                if world.budget.retries > 0 {
                    steps.push(Step::HandlerFails);
                }
            }
            Phase::Sending { outcome: None, .. } => {
                steps.push(Step::Apply);
                if world.budget.failures > 0 {
                    steps.push(Step::FailWrite);
                }
                if world.budget.rejections > 0 {
                    steps.push(Step::Reject);
                }
            }
            Phase::Sending { .. } => {
                steps.push(Step::Respond);
                if world.budget.failures > 0 {
                    steps.push(Step::FailWrite);
                }
            }
            Phase::Waiting => {
                let is_late = world.is_late();
                let deadline = process.object.machine.deadline();
                if deadline.is_some() && !(is_late && world.budget.delays == 0) {
                    steps.push(Step::TimePasses);
                }
                if world.is_paused {
                    steps.push(Step::Resume);
                } else if !process.is_leaving {
                    self.watching_steps(world, process, steps);
                }
            }
        }
        if process.runner == Runner::Stopping {
            steps.push(Step::RunnerExits);
        }
    }

    /// Adds the steps of a process that watches the object and waits.
    fn watching_steps(&self, world: &World, process: &Process, steps: &mut Vec<Step>) {
        let budget = &world.budget;
        let newest = process.object.newest.as_ref();
        let is_alive = newest.is_some_and(|newest| newest.event != EventType::Deleted);
        for (is_possible, step) in [
            (!world.server.events.is_empty(), Step::Deliver),
            (
                budget.batches > 0 && world.server.events.len() > 1,
                Step::DeliverBatch,
            ),
            (budget.relistings > 0, Step::Relist),
            (budget.garbled > 0, Step::Garble),
            (budget.broken > 0, Step::BreakFilter),
            (budget.children > 0 && is_alive, Step::Child),
            (budget.pauses > 0, Step::Pause),
            (budget.handovers > 0, Step::HandOver),
        ] {
            if is_possible {
                steps.push(step);
            }
        }
    }

    /// Makes a step of the operator, of its connection, or of a fault.
    fn make_operator_step(&self, world: &mut World, step: Step) -> Result<(), String> {
        match step {
            Step::HandlerSucceeds => self.handler_returns(world, Returns::Success),
            Step::HandlerRequeues => {
                world.budget.requeues -= 1;
                self.handler_returns(world, Returns::Requeue);
            }
            Step::HandlerFails => {
                world.budget.retries -= 1;
                self.handler_returns(world, Returns::Error);
            }
            Step::Apply => self.apply(world)?,
            Step::Respond => self.respond(world),
            Step::FailWrite => {
                world.budget.failures -= 1;
                self.fail_write(world, false)?;
            }
            Step::Reject => {
                world.budget.rejections -= 1;
                self.fail_write(world, true)?;
            }
            Step::TimePasses => self.time_passes(world),
            Step::Crash => {
                world.budget.crashes -= 1;
                self.crash(world);
            }
            Step::Start => {
                world.process = Some(Process::default());
                self.relist(world);
            }
            Step::Resume => {
                world.is_paused = false;
                self.relist(world);
            }
            Step::Relist => {
                world.budget.relistings -= 1;
                self.relist(world);
            }
            Step::Deliver => self.deliver(world),
            Step::DeliverBatch => {
                world.budget.batches -= 1;
                self.deliver_batch(world);
            }
            Step::Pause => {
                world.budget.pauses -= 1;
                world.is_paused = true;
                world.server.events.clear();
            }
            _ => self.make_step_of_process(world, step),
        }
        Ok(())
    }

    fn make_step_of_process(&self, world: &mut World, step: Step) {
        if step == Step::Child {
            self.owe_calls(world);
        }
        let (Some(process), now) = (&mut world.process, world.now) else {
            return;
        };
        match step {
            Step::Garble => {
                world.budget.garbled -= 1;
                self.operator.feed(process, Input::Failed, now);
            }
            Step::BreakFilter => {
                world.budget.broken -= 1;
                process.is_filter_broken = true;
            }
            Step::Child => {
                world.budget.children -= 1;
                self.operator.take_child(process, now);
            }
            Step::HandOver => {
                world.budget.handovers -= 1;
                process.is_leaving = true;
            }
            Step::RunnerExits => {
                process.runner = Runner::Absent;
                if process.object.machine.is_woken_by_exits() {
                    self.operator.feed(process, Input::RunnerExited, now);
                }
            }
            _ => {}
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
        let existed = world.server.object.is_some();
        if !matches!(
            step,
            Step::Apply | Step::Respond | Step::Deliver | Step::DeliverBatch | Step::TimePasses
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
            _ => self.make_operator_step(world, *step)?,
        }
        self.notice(world);
        if existed {
            self.check_gone(world)?;
        }
        self.call(world)
    }

    fn check_end(&self, world: &World) -> Result<(), String> {
        self.check_final(world)
    }
}
