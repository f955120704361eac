//! The machine of one object: from inputs to actions.
//!
//! Pure: no clock, no client, no tasks. A driver feeds inputs, performs the returned actions in
//! order, feeds their results, and calls again at [`Machine::deadline`]. One input at a time, so
//! nothing is ever done to one object twice at once.

use super::action::{Action, Message};
use super::echo::{Echo, Overdue, Remaining};
use super::input::Input;
use super::moment::Moment;
use super::plan::{Consistency, PendingPatch};
use super::progressing::{Backoff, FinalizerBackoff, Stall};
use super::rules::Rules;
use super::stamping::{Stamp, Stamps};
use super::state::{BackOffReason, BackingOff, NextStep, Snapshot, State, Unsent};
use crate::cause::EventType;

/// The actions of one step, in order.
pub type Actions = Vec<Action>;

/// The machine of one object. See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Machine {
    pub(super) state: State,
    pub(super) echo: Echo,
    /// The newest version of the object, if any is known.
    pub(super) newest: Option<Newest>,
    /// Failures of the framework in a row.
    pub(super) failures: Backoff,
    /// Conflicts of transformations in a row.
    pub(super) conflicts: Backoff,
    /// Writes in a row that changed nothing although changes were to be handled after them.
    pub(super) futile: Backoff,
    /// Changes of the finalizer in a row that did not last.
    pub(super) finalizer: FinalizerBackoff,
    pub(super) stall: Stall,
    /// Own writes in a row that came with changes to be handled.
    pub(super) stamps: Stamps,
    /// The operator is paused, and no event has arrived since.
    pub(super) paused: bool,
}

/// The properties of the newest version that the machine needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Newest {
    pub(super) event: EventType,
    pub(super) snapshot: Snapshot,
}

impl Machine {
    /// Continues from the response to the last write. Later events are compared with it.
    pub(super) fn adopt(&mut self, snapshot: Snapshot) {
        let event = EventType::Modified;
        self.newest = Some(Newest { event, snapshot });
    }

    /// Returns the current state.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns `true` while an own write is awaited on the watch stream.
    pub fn awaits_echo(&self) -> bool {
        self.echo.is_pending()
    }

    /// Returns `true` if a version must not become the newest one: it is older than an own write whose
    /// event is late.
    pub fn is_outdated(&self, version: &str, now: Moment) -> bool {
        self.echo.is_outdated(version, now)
    }

    /// Returns `true` if the exit of a daemon or a timer ends the current wait.
    pub fn is_woken_by_exits(&self) -> bool {
        match &self.state {
            State::Sleeping { .. } => true,
            State::AwaitingEcho { wake } => wake.is_some(),
            State::BackingOff(BackingOff { reason, .. }) => !reason.holds_events(),
            _ => false,
        }
    }

    /// Returns the change that came with the last write, if any.
    pub fn stamp(&self) -> Option<&Stamp> {
        self.stamps.last()
    }

    /// Takes the part of the state that must outlive the driver of the object.
    pub fn take_overdue(&mut self) -> Option<Overdue> {
        self.echo.take_overdue()
    }

    /// Restores the part of the state that has outlived an earlier driver.
    pub fn restore_overdue(&mut self, overdue: Option<Overdue>) {
        self.echo.restore_overdue(overdue);
    }

    /// Returns `true` if a patch that could not be sent is kept.
    pub fn has_unsent(&self) -> bool {
        matches!(
            &self.state,
            State::BackingOff(BackingOff {
                reason: BackOffReason::Unsent(_),
                ..
            })
        )
    }

    /// Returns `true` if a patch is kept that the server rejects.
    pub fn is_rejected(&self) -> bool {
        matches!(
            &self.state,
            State::BackingOff(BackingOff {
                reason: BackOffReason::Unsent(Unsent { rejected: true, .. }),
                ..
            })
        )
    }

    /// Returns `true` if events are shown to indices and event handlers only: it is too early to
    /// try again after a failure.
    pub fn is_held_back(&self, now: Moment) -> bool {
        matches!(
            &self.state,
            State::BackingOff(BackingOff { until, reason }) if reason.holds_events() && now < *until
        )
    }

    /// Returns when to feed [`Input::Deadline`]; `None` if only events matter.
    pub fn deadline(&self) -> Option<Moment> {
        let echo = self.echo.deadline();
        match &self.state {
            State::Sleeping { until } => Some(*until),
            State::AwaitingEcho { wake } => [*wake, echo].into_iter().flatten().min(),
            State::BackingOff(BackingOff { until, reason }) if reason.holds_events() => {
                Some(echo.map_or(*until, |echo| echo.max(*until)))
            }
            State::BackingOff(BackingOff { until, .. }) => {
                Some(echo.map_or(*until, |echo| echo.min(*until)))
            }
            State::Idle | State::Planning | State::Running(_) | State::Writing(_) | State::Gone => {
                None
            }
        }
    }

    /// Makes one step. Inputs that do not fit the current state are ignored.
    pub fn step(&mut self, input: Input, rules: &impl Rules, now: Moment) -> Actions {
        let mut actions = Actions::new();
        match input {
            Input::Event { event, version } => {
                self.event(event, version.as_deref(), now, &mut actions);
            }
            Input::Superseded { version } => self.see(&version, now),
            Input::Newest { event, snapshot } => {
                let newest = Newest { event, snapshot };
                self.caught_up(newest, now, &mut actions);
            }
            Input::Vanished => self.vanished(&mut actions),
            Input::Planned(facts) => self.planned(&facts, rules, now, &mut actions),
            Input::HandlersFinished(handled) => self.handled(handled, rules, now, &mut actions),
            Input::Written(response) => self.written(response, rules, now, &mut actions),
            Input::Conflicted(response) => self.conflicted(response, rules, now, &mut actions),
            Input::WriteFailed { rejected } => {
                self.write_failed(rejected, rules, now, &mut actions);
            }
            Input::NotFound => self.not_found(now, &mut actions),
            Input::NoVersion => self.state = State::Idle,
            Input::Failed => self.failed(rules, now, &mut actions),
            Input::RunnerExited => self.runner_exited(now),
            Input::Deadline => self.deadline_reached(rules, now, &mut actions),
            Input::Paused(patch) => self.paused(patch, &mut actions),
        }
        actions
    }

    /// Notes the arrival of a version.
    fn see(&mut self, version: &str, now: Moment) {
        self.stamps.see(version, now);
        self.echo.see(version);
    }

    fn event(
        &mut self,
        event: EventType,
        version: Option<&str>,
        now: Moment,
        actions: &mut Actions,
    ) {
        if matches!(self.newest, Some(newest) if newest.event == EventType::Deleted) {
            // Another object with the same identity.
            self.begin_another_life(actions);
        }
        if self.state == State::Gone {
            self.state = State::Idle;
        }
        if let Some(version) = version {
            self.see(version, now);
        }
        actions.extend([Action::Index, Action::CallEventHandlers]);
        if event == EventType::Deleted {
            let snapshot = Snapshot::default();
            self.newest = Some(Newest { event, snapshot });
        }
    }

    fn begin_another_life(&mut self, actions: &mut Actions) {
        *self = Self::default();
        actions.push(Action::Forget);
    }

    fn vanished(&mut self, actions: &mut Actions) {
        self.begin_another_life(actions);
        self.state = State::Gone;
    }

    /// Handles the newest version, after all queued ones were shown.
    fn caught_up(&mut self, newest: Newest, now: Moment, actions: &mut Actions) {
        self.paused = false;
        let was_deleting = self.newest.is_some_and(|known| known.snapshot.deleting);
        self.newest = Some(newest);
        if newest.event == EventType::Deleted {
            // Nothing can be written any more.
            self.echo.forget();
            return self.begin_cycle(actions);
        }
        if self.echo.expire(now).is_some() {
            actions.push(Action::AdoptResponse);
        }
        if let State::BackingOff(BackingOff {
            reason: BackOffReason::Unsent(unsent),
            ..
        }) = &self.state
            && unsent.rejected
            && unsent.snapshot != newest.snapshot
        {
            // Otherwise the object could not even be deleted.
            if unsent.finalizer.is_some() {
                // It was not changed, so it cannot have been reverted.
                self.finalizer.reset();
            }
            actions.push(Action::DropUnsent);
            return self.begin_cycle(actions);
        }
        // Users wait for a deletion, and what has failed may not matter any more.
        let deletion_began = newest.snapshot.deleting && !was_deleting;
        if self.is_held_back(now) && !deletion_began {
            return;
        }
        if let State::Sleeping { until } = self.state
            && now < until
        {
            let left = until.since(now);
            actions.push(Action::Log(Message::SleepingInterrupted(left)));
        }
        self.resume(actions);
    }

    /// Sends what is unsent, or begins a cycle.
    pub(super) fn resume(&mut self, actions: &mut Actions) {
        let state = std::mem::take(&mut self.state);
        if let State::BackingOff(BackingOff {
            reason: BackOffReason::Unsent(unsent),
            ..
        }) = state
        {
            // Versions may have arrived since, which no cycle has looked at.
            let then = NextStep::Cycle;
            self.state = State::Writing(Unsent { then, ..unsent });
            actions.push(Action::Resend);
        } else {
            self.begin_cycle(actions);
        }
    }

    pub(super) fn begin_cycle(&mut self, actions: &mut Actions) {
        self.state = State::Planning;
        actions.push(Action::Plan);
    }

    pub(super) fn consistency(&self) -> Consistency {
        if self.echo.is_pending() {
            Consistency::Awaited
        } else {
            Consistency::Seen
        }
    }

    fn runner_exited(&mut self, now: Moment) {
        match &mut self.state {
            State::Sleeping { until } => *until = now,
            State::AwaitingEcho { wake: Some(wake) } => *wake = now,
            State::BackingOff(BackingOff { until, reason }) if !reason.holds_events() => {
                *until = now;
            }
            _ => {}
        }
    }

    fn deadline_reached(&mut self, rules: &impl Rules, now: Moment, actions: &mut Actions) {
        if self.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        let expired = self.echo.expire(now);
        if expired.is_some() {
            actions.push(Action::AdoptResponse);
        }
        match &self.state {
            State::AwaitingEcho { wake } => {
                let is_due = wake.is_some_and(|wake| wake <= now);
                if is_due || expired == Some(Remaining::Cycle) {
                    self.begin_cycle(actions);
                } else {
                    let until = *wake;
                    self.state = until.map_or(State::Idle, |until| State::Sleeping { until });
                }
            }
            State::BackingOff(BackingOff { until, .. }) if now < *until => {}
            State::BackingOff(_) => self.resume(actions),
            State::Sleeping { .. } if rules.touches() => {
                self.state = State::Writing(self.unsent(NextStep::Cycle));
                actions.push(Action::Touch);
            }
            _ => self.begin_cycle(actions),
        }
    }

    /// Handles a pause: the object may belong to another operator, and is listed again afterwards.
    /// Results of handlers are still written.
    fn paused(&mut self, patch: PendingPatch, actions: &mut Actions) {
        self.paused = true;
        match &self.state {
            State::Gone
            | State::BackingOff(BackingOff {
                reason: BackOffReason::Unsent(_),
                ..
            }) => {}
            _ if patch != PendingPatch::Empty && self.newest.is_some() => {
                self.state = State::Writing(self.unsent(NextStep::Finish));
                actions.push(Action::Write(None));
            }
            _ => {
                self.echo.forget();
                self.state = State::Idle;
            }
        }
    }

    pub(super) fn unsent(&self, then: NextStep) -> Unsent {
        Unsent {
            then,
            snapshot: self
                .newest
                .map(|newest| newest.snapshot)
                .unwrap_or_default(),
            rejected: false,
            finalizer: None,
        }
    }
}
