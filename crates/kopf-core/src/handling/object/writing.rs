//! The end of a cycle: what follows the response to a write.

use std::time::Duration;

use super::action::{Action, Message};
use super::echo::{Awaited, Covered, Remaining};
use super::input::{Effect, Response};
use super::machine::{Actions, Machine};
use super::moment::Moment;
use super::plan::FinalizerChange;
use super::rules::Rules;
use super::state::{BackOffReason, BackingOff, NextStep, State, Unsent};
use crate::cause::{EventType, Reason};

/// Delay before an unsent patch is sent again if the settings have no delays.
const RESEND: Duration = Duration::from_secs(1);

impl Machine {
    pub(super) fn written(
        &mut self,
        response: Response,
        rules: &impl Rules,
        now: Moment,
        actions: &mut Actions,
    ) {
        let State::Writing(unsent) = self.state.clone() else {
            return;
        };
        self.conflicts.reset();
        if unsent.then == NextStep::Retry {
            self.failures.reset();
        } else {
            self.recovered(actions);
        }
        self.note_stamp(&response);
        if let NextStep::Sleep(delay) = unsent.then
            && !delay.is_zero()
        {
            // Without a request, no event interrupts the sleep.
            let message = match response.awaited {
                Some(_) => Message::SleepingSkipped(delay),
                None => Message::Sleeping(delay),
            };
            actions.push(Action::Log(message));
        }
        if response.effect == Effect::Settled
            && unsent.then == NextStep::Finish
            && self.echo.remaining() != Some(Remaining::Cycle)
        {
            return self.settle(&response, rules, now, actions);
        }
        let effect = response.effect;
        if self.expect(response, unsent.then, rules, now) {
            self.state = State::AwaitingEcho { wake: None };
            if unsent.then == NextStep::Retry {
                self.failed(rules, now, actions);
            }
            return;
        }
        self.go_on(&unsent, effect, rules, now, actions);
    }

    /// Goes on without waiting for the write: its event has arrived already, or there is none.
    fn go_on(
        &mut self,
        unsent: &Unsent,
        effect: Effect,
        rules: &impl Rules,
        now: Moment,
        actions: &mut Actions,
    ) {
        if effect != Effect::None {
            self.futile.reset();
        }
        match unsent.then {
            NextStep::Finish => self.state = self.waiting(None),
            NextStep::Retry => self.failed(rules, now, actions),
            NextStep::Sleep(delay) => self.state = self.waiting(Some(now.after(delay))),
            NextStep::Cycle if self.echo.is_pending() => {
                self.echo.require_cycle();
                self.state = State::AwaitingEcho { wake: None };
            }
            NextStep::Cycle if self.paused => self.state = State::Idle,
            NextStep::Cycle if self.futile.is_empty() => {
                self.futile.count(now);
                self.begin_cycle(actions);
            }
            NextStep::Cycle => {
                let delay = self.futile.delay(rules);
                self.futile.count(now);
                self.back_off(BackOffReason::Stall, now.after(delay));
            }
        }
    }

    fn waiting(&self, wake: Option<Moment>) -> State {
        match wake {
            _ if self.echo.is_pending() => State::AwaitingEcho { wake },
            Some(until) => State::Sleeping { until },
            None => State::Idle,
        }
    }

    /// Begins to wait for the event of a write. Returns `false` if there is nothing to wait for.
    fn expect(
        &mut self,
        response: Response,
        then: NextStep,
        rules: &impl Rules,
        now: Moment,
    ) -> bool {
        let timeout = rules.echo_timeout();
        let Some(awaited) = response.awaited.filter(|_| !timeout.is_zero()) else {
            return false;
        };
        if response.effect == Effect::None {
            return false;
        }
        let remaining = match then {
            NextStep::Finish => Remaining::Nothing,
            NextStep::Cycle | NextStep::Sleep(_) | NextStep::Retry => Remaining::Cycle,
        };
        self.echo.expect(awaited, now.after(timeout), remaining)
    }

    /// Ends the cycle of a write that needs no further cycle, so that its event is not awaited.
    fn settle(
        &mut self,
        response: &Response,
        rules: &impl Rules,
        now: Moment,
        actions: &mut Actions,
    ) {
        self.echo.forget();
        self.stall.reset();
        self.futile.reset();
        self.state = State::Idle;
        let unhandled = Message::Unhandled(Reason::Noop);
        let covered = match &response.awaited {
            Some(Awaited::Version(version)) => {
                Covered::new(version, now.after(rules.echo_timeout()))
            }
            _ => None,
        };
        actions.extend([
            Action::Cover(covered),
            Action::Log(unhandled),
            Action::Log(Message::CycleFinished),
        ]);
    }

    pub(super) fn conflicted(
        &mut self,
        response: Option<Response>,
        rules: &impl Rules,
        now: Moment,
        actions: &mut Actions,
    ) {
        let State::Writing(unsent) = &self.state else {
            return;
        };
        if unsent.then == NextStep::Retry {
            actions.push(Action::ReportFailure(None));
        }
        if unsent.finalizer.is_some() {
            // It was not changed, so it cannot have been reverted.
            self.finalizer.reset();
        }
        self.recovered(actions);
        self.conflicts.count(now);
        let delay = self.conflicts.delay(rules);
        if let Some(response) = &response {
            self.note_stamp(response);
        }
        let awaits =
            response.is_some_and(|response| self.expect(response, NextStep::Cycle, rules, now));
        if awaits && self.conflicts.is_first() {
            self.state = State::AwaitingEcho { wake: None };
        } else {
            // The event that is in the way normally arrives earlier.
            self.back_off(BackOffReason::Conflict, now.after(delay));
        }
    }

    pub(super) fn write_failed(
        &mut self,
        rejected: bool,
        rules: &impl Rules,
        now: Moment,
        actions: &mut Actions,
    ) {
        let State::Writing(unsent) = self.state.clone() else {
            return;
        };
        if !rules.keeps_unsent() {
            return self.failed(rules, now, actions);
        }
        let delay = self.failures.next_failure_delay(rules).unwrap_or(RESEND);
        self.failures.count(now);
        let unsent = Unsent { rejected, ..unsent };
        if unsent.finalizer == Some(FinalizerChange::Release) {
            // The handlers have finished, and the next attempt can be long after a restart.
            actions.push(Action::Record);
        }
        actions.push(Action::ReportFailure(Some(delay)));
        self.back_off(BackOffReason::Unsent(unsent), now.after(delay));
    }

    /// Handles a failure of the framework: the cycle is repeated later, or with the next event.
    pub(super) fn failed(&mut self, rules: &impl Rules, now: Moment, actions: &mut Actions) {
        if self.has_unsent() {
            // The patch that could not be sent goes first.
            return actions.push(Action::ReportFailure(None));
        }
        if matches!(self.newest, Some(newest) if newest.event == EventType::Deleted) {
            self.state = State::Gone;
            return actions.extend([Action::ReportFailure(None), Action::Forget]);
        }
        let delay = self.failures.next_failure_delay(rules);
        actions.push(Action::ReportFailure(delay));
        match delay {
            Some(delay) => {
                self.failures.count(now);
                self.back_off(BackOffReason::Failure, now.after(delay));
            }
            None => self.state = self.waiting(None),
        }
    }

    /// Ends a series of failures. The end of the throttling is logged here, and not when a delay has
    /// passed: the next attempt can fail as well.
    pub(super) fn recovered(&mut self, actions: &mut Actions) {
        if self.failures.reset() {
            actions.push(Action::Log(Message::ThrottlingOver));
        }
    }

    /// Handles a missing object: its `DELETED` event, or the next listing, follows.
    pub(super) fn not_found(&mut self, now: Moment, actions: &mut Actions) {
        let mut echo = std::mem::take(&mut self.echo);
        echo.abandon(now);
        *self = Self {
            echo,
            ..Self::default()
        };
        actions.push(Action::Log(Message::PatchSkipped));
    }

    /// Notes whether a write came with a change that it did not contain.
    fn note_stamp(&mut self, response: &Response) {
        if response.awaited.is_some() {
            self.stamps.note(response.stamp.clone());
        }
    }

    fn back_off(&mut self, reason: BackOffReason, until: Moment) {
        self.state = State::BackingOff(BackingOff { until, reason });
    }
}
