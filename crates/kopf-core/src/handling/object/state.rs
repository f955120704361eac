//! The states of one object.

use std::time::Duration;

use super::moment::Moment;
use super::plan::FinalizerChange;
use super::progressing::Fingerprint;

/// The state of one object between two inputs.
///
/// ```text
///                  ┌───────────────── event, deadline ─────────────────┐
///                  ▼                                                   │
///                  Idle ─► Planning ─► Running ─► Writing ─► AwaitingEcho
///                  ▲          │  │          │         │  │           │
///                  │          │  └──────────┴─────────┼──┴► Sleeping ┤
///                  └──────────┴───────────────────────┴──► BackingOff┘
///                 (any) ─► Gone
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// Nothing is left to do until the next event.
    #[default]
    Idle,
    /// The facts for the next cycle are being gathered.
    Planning,
    /// Change handlers run.
    Running(Running),
    /// A patch is being sent.
    Writing(Unsent),
    /// Change handlers wait for the own write to arrive on the watch stream.
    AwaitingEcho {
        /// When to run a cycle before that: a daemon that is being stopped is to be checked.
        wake: Option<Moment>,
    },
    /// A handler is due later.
    Sleeping {
        /// When it is due.
        until: Moment,
    },
    /// Something failed and is retried later.
    BackingOff(BackingOff),
    /// The object does not exist any longer.
    Gone,
}

/// The facts of a cycle whose change handlers run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Running {
    /// The called handlers.
    pub(super) handlers: RunningHandlers,
    /// The finalizer holds back the deletion of the object until the handlers are finished.
    pub(super) holds_deletion: bool,
    /// When to check the daemons and timers that are being stopped.
    pub(super) exiting: Option<Duration>,
    /// It is unknown whether some daemons or timers must run, because their filters failed.
    pub(super) uncertain: bool,
}

/// The handlers that are called in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum RunningHandlers {
    /// The handlers of a cause.
    OfCause {
        /// The digest of the cause.
        fingerprint: Fingerprint,
        /// The time at which a reconcile handler is due.
        reconciling: Option<Moment>,
    },
    /// A reconcile handler.
    Reconciling {
        /// The time at which the next handler of a cause is due.
        waiting: Option<Moment>,
    },
}

/// A patch that the server has not accepted yet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unsent {
    /// The step after the write.
    pub(super) then: NextStep,
    /// The object that it was decided on.
    pub(super) snapshot: Snapshot,
    /// The server rejects its content, so that sending it again is of no use unless the object
    /// changes.
    pub(super) rejected: bool,
    /// The change of the finalizer in the patch.
    pub(super) finalizer: Option<FinalizerChange>,
}

/// The step after a successful write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NextStep {
    /// Nothing: the cycle is complete.
    Finish,
    /// Changes are still to be handled.
    Cycle,
    /// A handler, or the check of a daemon, is due after this time.
    Sleep(Duration),
    /// The framework failed in this cycle, which is repeated after a back-off.
    Retry,
}

/// The parts of an object that contain its desired state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// `metadata.generation`.
    pub generation: Option<i64>,
    /// The object is marked for deletion.
    pub deleting: bool,
}

/// A wait after a failure or without progress.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BackingOff {
    /// The time of the next attempt.
    pub(super) until: Moment,
    /// The reason of the wait.
    pub(super) reason: BackOffReason,
}

impl BackingOff {
    /// Returns the reason of the wait.
    pub fn reason(&self) -> &BackOffReason {
        &self.reason
    }
}

/// The reason of a back-off.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BackOffReason {
    /// A patch could not be sent; it is kept and sent again before anything else happens.
    Unsent(Unsent),
    /// The framework failed before anything was to be sent.
    Failure,
    /// The object has changed before transformations could be applied. Its event ends the wait.
    Conflict,
    /// A cycle had no effect that can be seen on the object. An event ends the wait.
    Stall,
}

impl BackOffReason {
    /// Returns `true` if events of the object do not end the wait.
    pub(super) fn holds_events(&self) -> bool {
        matches!(self, Self::Unsent(_) | Self::Failure)
    }
}
