//! The rules of the machine that depend on settings, one function each.
//!
//! They are a trait so that the model checker can prove that each of them matters: it replaces one
//! rule at a time by a wrong one, and must find a counterexample.

use std::time::Duration;

use super::plan::{Consistency, Facts, FinalizerChange, Plan, plan};

/// Lower bound for delays after cycles without progress, for all settings.
const SHORTEST_BACKOFF: Duration = Duration::from_secs(1);

/// The rules of one operator.
pub trait Rules {
    /// Returns how long change handlers wait for an own write to arrive on the watch stream; zero
    /// disables the wait.
    fn echo_timeout(&self) -> Duration;

    /// Returns the delay after a failure of the framework, the first one being 0; `None` if the
    /// object waits for its next event.
    fn failure_delay(&self, failures: u32) -> Option<Duration>;

    /// Returns the delay after a cycle without progress. Grows with the number of such cycles in a
    /// row, and is at least one second.
    fn backoff(&self, cycles: u32) -> Duration {
        let delay = self.failure_delay(cycles).unwrap_or_default();
        delay.max(SHORTEST_BACKOFF)
    }

    /// Returns `true` if delayed handlers are woken up by a write, as in the original.
    fn touches(&self) -> bool {
        false
    }

    /// Returns `true` if a patch that could not be sent is kept and sent again.
    fn keeps_unsent(&self) -> bool {
        true
    }

    /// Plans a cycle.
    fn plan(
        &self,
        facts: &Facts,
        change: Option<FinalizerChange>,
        consistency: Consistency,
    ) -> Plan {
        plan(facts, change, consistency)
    }

    /// Returns `true` if the finalizer may be removed from an object that is being deleted.
    fn releases(&self, blockers: &DeletionBlockers) -> bool {
        !blockers.handlers && !blockers.runners && !blockers.retry
    }
}

/// The work that the deletion of an object still waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeletionBlockers {
    /// Handlers that are not finished.
    pub handlers: bool,
    /// Daemons and timers that have not exited.
    pub runners: bool,
    /// A cycle that must be repeated because the framework failed.
    pub retry: bool,
}

/// The rules as configured by settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandardRules {
    /// `persistence.consistency_timeout`.
    pub echo_timeout: Duration,
    /// `queueing.error_delays`.
    pub error_delays: Vec<Duration>,
    /// `persistence.touching`.
    pub touching: bool,
}

impl Rules for StandardRules {
    fn echo_timeout(&self) -> Duration {
        self.echo_timeout
    }

    fn failure_delay(&self, failures: u32) -> Option<Duration> {
        let position = usize::try_from(failures).unwrap_or(usize::MAX);
        let delay = self.error_delays.get(position);
        delay.or(self.error_delays.last()).copied()
    }

    fn touches(&self) -> bool {
        self.touching
    }
}
