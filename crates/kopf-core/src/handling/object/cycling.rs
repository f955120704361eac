//! The middle of a cycle: from the facts to handlers, to a write, or to sleep.

use std::time::Duration;

use super::action::{Action, Message};
use super::input::Handled;
use super::machine::{Actions, Machine};
use super::moment::Moment;
use super::plan::{Consistency, Facts, Finalizer, FinalizerChange, PendingPatch, Plan};
use super::rules::{DeletionBlockers, Rules};
use super::state::{BackOffReason, BackingOff, NextStep, Running, RunningHandlers, State, Unsent};
use crate::cause::{EventType, Reason};

/// The result of a cycle.
struct End {
    holds_deletion: bool,
    exiting: Option<Duration>,
    due: Option<Duration>,
    patch: PendingPatch,
    failure: Failure,
    /// Change handlers were considered.
    considered: bool,
}

/// A failure of the framework in a cycle that continues nevertheless.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failure {
    None,
    /// It is unknown whether some daemons or timers must run.
    Runners,
    /// The handling could not be concluded.
    Handling,
}

impl Failure {
    fn new(handling_failed: bool, runners_uncertain: bool) -> Self {
        if handling_failed {
            Self::Handling
        } else if runners_uncertain {
            Self::Runners
        } else {
            Self::None
        }
    }
}

impl End {
    /// Ends a cycle without change handlers.
    fn skipped(facts: &Facts, reason: Option<Reason>) -> Self {
        Self {
            holds_deletion: holds_deletion(facts),
            exiting: facts.exiting,
            due: facts.reconciling,
            patch: facts.patch,
            failure: Failure::new(false, facts.uncertain),
            considered: reason.is_some(),
        }
    }
}

impl Machine {
    pub(super) fn planned(
        &mut self,
        facts: &Facts,
        rules: &impl Rules,
        now: Moment,
        actions: &mut Actions,
    ) {
        if self.state != State::Planning {
            return;
        }
        let change = self.finalizer_change(facts, rules, now, actions);
        let plan = rules.plan(facts, change.now, self.consistency());
        let facts = &Facts {
            exiting: earliest(facts.exiting, change.later),
            ..*facts
        };
        match plan {
            Plan::AwaitEcho => self.await_echo(facts, now),
            Plan::WriteFirst(change) => {
                let then = match facts.reason {
                    Some(_) => NextStep::Cycle,
                    None => sleep_or_finish(earliest(facts.exiting, facts.reconciling)),
                };
                if facts.uncertain {
                    actions.push(Action::ReportFailure(None));
                }
                self.write_first(change, then, now, actions);
            }
            Plan::Handle(reason) => {
                let stalled = self.stall.blocked_until(facts.fingerprint, rules, now);
                match (stalled, self.stamped(reason, rules, now)) {
                    (Some(until), _) => self.stall(facts, until, Message::Stalled, now, actions),
                    (_, Some(until)) => self.stall(facts, until, Message::Stamped, now, actions),
                    (None, None) => self.run(facts, reason, now, actions),
                }
            }
            Plan::Reconcile => match self.stamps.blocked_until(rules, now) {
                Some(until) => self.stall(facts, until, Message::Stamped, now, actions),
                None => self.reconcile(facts, actions),
            },
            Plan::Skip(reason) => {
                self.skip(facts, reason, actions);
                if self.state != State::Gone {
                    self.end_cycle(&End::skipped(facts, reason), rules, now, actions);
                }
            }
        }
    }

    fn await_echo(&mut self, facts: &Facts, now: Moment) {
        self.echo.require_cycle();
        // Stopping daemons does not wait for own writes.
        let wake = facts.exiting.map(|delay| now.after(delay));
        self.state = State::AwaitingEcho { wake };
    }

    fn reconcile(&mut self, facts: &Facts, actions: &mut Actions) {
        self.futile.reset();
        self.state = State::Running(Running {
            handlers: RunningHandlers::Reconciling { waiting: None },
            holds_deletion: false,
            exiting: facts.exiting,
            uncertain: facts.uncertain,
        });
        actions.push(Action::Reconcile);
    }

    fn run(&mut self, facts: &Facts, reason: Reason, now: Moment, actions: &mut Actions) {
        self.futile.reset();
        self.state = State::Running(Running {
            handlers: RunningHandlers::OfCause {
                fingerprint: facts.fingerprint,
                reconciling: facts.reconciling.map(|delay| now.after(delay)),
            },
            holds_deletion: holds_deletion(facts),
            exiting: facts.exiting,
            uncertain: facts.uncertain,
        });
        actions.push(Action::Run(reason));
    }

    /// Returns the moment until which an update must wait, because each own write causes another
    /// one.
    fn stamped(&self, reason: Reason, rules: &impl Rules, now: Moment) -> Option<Moment> {
        let blocked = self.stamps.blocked_until(rules, now);
        blocked.filter(|_| reason == Reason::Update)
    }

    /// Waits before handlers are called again for a cause on which they had no visible effect, or
    /// which their last call has caused.
    fn stall(
        &mut self,
        facts: &Facts,
        until: Moment,
        message: fn(Duration) -> Message,
        now: Moment,
        actions: &mut Actions,
    ) {
        if facts.patch != PendingPatch::Empty {
            return self.write_first(None, NextStep::Cycle, now, actions);
        }
        actions.push(Action::Log(message(until.since(now))));
        // Stopping daemons does not wait.
        let exiting = facts.exiting.map(|delay| now.after(delay));
        self.state = State::BackingOff(BackingOff {
            until: exiting.map_or(until, |exiting| exiting.min(until)),
            reason: BackOffReason::Stall,
        });
    }

    fn skip(&mut self, facts: &Facts, reason: Option<Reason>, actions: &mut Actions) {
        if let Some(reason) = reason {
            actions.push(Action::Log(Message::Unhandled(reason)));
            if reason == Reason::Noop {
                self.stall.reset();
            }
        }
        if facts.event == EventType::Deleted {
            self.state = State::Gone;
            actions.push(Action::Forget);
        }
    }

    fn write_first(
        &mut self,
        change: Option<FinalizerChange>,
        then: NextStep,
        now: Moment,
        actions: &mut Actions,
    ) {
        match change {
            Some(FinalizerChange::Add) => actions.push(Action::Log(Message::AddingFinalizer)),
            Some(FinalizerChange::Drop) => actions.push(Action::Log(Message::DroppingFinalizer)),
            Some(FinalizerChange::Release) => {
                actions.push(Action::Log(Message::RemovingFinalizer));
            }
            None => {}
        }
        if let Some(change) = change {
            self.finalizer.count(change, now);
        }
        self.state = State::Writing(Unsent {
            finalizer: change,
            ..self.unsent(then)
        });
        actions.push(Action::Write(change));
    }

    pub(super) fn handled(
        &mut self,
        handled: Handled,
        rules: &impl Rules,
        now: Moment,
        actions: &mut Actions,
    ) {
        let State::Running(running) = self.state.clone() else {
            return;
        };
        let other = match running.handlers {
            RunningHandlers::Reconciling { waiting } => waiting,
            RunningHandlers::OfCause {
                fingerprint,
                reconciling,
            } => {
                if handled.attempted {
                    self.stall.note(fingerprint, now);
                }
                let stamped = self.stamps.blocked_until(rules, now);
                let is_due = reconciling.is_some_and(|due| due <= now);
                if is_due && stamped.is_some() {
                    // Each own write causes another update.
                    stamped
                } else if is_due && gives_way(handled) {
                    // The handlers of the cause wait for their retries.
                    let waiting = handled.due.map(|delay| now.after(delay));
                    self.state = State::Running(Running {
                        handlers: RunningHandlers::Reconciling { waiting },
                        ..running
                    });
                    return actions.push(Action::Reconcile);
                } else {
                    reconciling
                }
            }
        };
        let end = End {
            holds_deletion: running.holds_deletion,
            exiting: running.exiting,
            // Calls take time, by which the other handlers must not be delayed.
            due: earliest(handled.due, other.map(|due| due.since(now))),
            patch: handled.patch,
            failure: Failure::new(handled.failed, running.uncertain),
            considered: true,
        };
        self.end_cycle(&end, rules, now, actions);
    }

    fn end_cycle(&mut self, end: &End, rules: &impl Rules, now: Moment, actions: &mut Actions) {
        let blockers = DeletionBlockers {
            handlers: end.due.is_some(),
            runners: end.exiting.is_some(),
            retry: end.failure == Failure::Handling,
        };
        let change = FinalizerChange::Release;
        let blocked = self.finalizer.blocked_until(change, rules, now);
        let releases = end.holds_deletion && rules.releases(&blockers);
        let delay = match blocked.filter(|_| releases) {
            Some(until) => {
                let delay = until.since(now);
                actions.push(Action::Log(Message::FinalizerReverted(delay)));
                Some(delay)
            }
            None => earliest(end.exiting, end.due),
        };
        if releases && blocked.is_none() {
            self.finalizer.count(change, now);
            actions.push(Action::Log(Message::RemovingFinalizer));
            self.state = State::Writing(Unsent {
                finalizer: Some(change),
                ..self.unsent(sleep_or_finish(delay))
            });
            actions.push(Action::Write(Some(change)));
        } else if end.patch != PendingPatch::Empty {
            let then = match end.failure {
                Failure::None => sleep_or_finish(delay),
                Failure::Runners | Failure::Handling => NextStep::Retry,
            };
            self.state = State::Writing(self.unsent(then));
            actions.push(Action::Write(None));
        } else if end.failure != Failure::None {
            self.failed(rules, now, actions);
        } else {
            self.recovered(actions);
            self.rest(delay, end.considered, now, actions);
        }
    }

    fn rest(
        &mut self,
        delay: Option<Duration>,
        considered: bool,
        now: Moment,
        actions: &mut Actions,
    ) {
        if let Some(delay) = delay {
            return self.sleep(delay, now, actions);
        }
        if considered {
            actions.push(Action::Log(Message::CycleFinished));
        }
        self.state = if self.echo.is_pending() {
            State::AwaitingEcho { wake: None }
        } else {
            State::Idle
        };
    }

    fn sleep(&mut self, delay: Duration, now: Moment, actions: &mut Actions) {
        if !delay.is_zero() {
            actions.push(Action::Log(Message::Sleeping(delay)));
        }
        let until = now.after(delay);
        self.state = if self.echo.is_pending() {
            State::AwaitingEcho { wake: Some(until) }
        } else {
            State::Sleeping { until }
        };
    }

    /// Returns the change of the finalizer that is allowed now, or the delay until it is.
    fn finalizer_change(
        &mut self,
        facts: &Facts,
        rules: &impl Rules,
        now: Moment,
        actions: &mut Actions,
    ) -> AllowedChange {
        let mut allowed = AllowedChange::default();
        if facts.event == EventType::Deleted {
            return allowed;
        }
        let Some(change) = facts.finalizer.change(facts.deleting) else {
            if !facts.deleting {
                self.finalizer.reset();
            }
            return allowed;
        };
        if self.consistency() == Consistency::Awaited && self.finalizer.is_last(change) {
            // This version can be older than the same change, which is not reverted then.
            self.echo.require_cycle();
            return allowed;
        }
        match self.finalizer.blocked_until(change, rules, now) {
            None => allowed.now = Some(change),
            Some(until) => {
                let delay = until.since(now);
                actions.push(Action::Log(Message::FinalizerReverted(delay)));
                allowed.later = Some(delay);
            }
        }
        allowed
    }
}

/// The change of the finalizer that is allowed now, or the delay until it is allowed.
#[derive(Clone, Copy, Debug, Default)]
struct AllowedChange {
    now: Option<FinalizerChange>,
    later: Option<Duration>,
}

/// Returns `true` if the handlers of a cause have nothing to do now.
fn gives_way(handled: Handled) -> bool {
    let is_waiting = handled.due.is_some_and(|delay| !delay.is_zero());
    is_waiting && !handled.attempted && !handled.failed && handled.patch == PendingPatch::Empty
}

/// Returns `true` if the finalizer holds back the deletion of the object.
fn holds_deletion(facts: &Facts) -> bool {
    facts.deleting && facts.finalizer == Finalizer::Kept
}

fn earliest(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    [one, other].into_iter().flatten().min()
}

fn sleep_or_finish(delay: Option<Duration>) -> NextStep {
    delay.map_or(NextStep::Finish, NextStep::Sleep)
}
