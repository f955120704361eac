//! The plan of one cycle: the decision based on the facts of the newest version.

use std::time::Duration;

use super::progressing::Fingerprint;
use crate::cause::{EventType, Reason};

/// All inputs of the plan. Gathered by the driver from the newest version, the storages, the
/// filters of handlers and the running daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The type of the event that brought the version.
    pub event: EventType,
    /// The object is marked for deletion.
    pub deleting: bool,
    /// The finalizer of the operator on the object.
    pub finalizer: Finalizer,
    /// The reason of the cause; `None` if no change handler matches it.
    pub reason: Option<Reason>,
    /// When to check the daemons and timers that are being stopped; `None` if there are none. The
    /// machine adds the delay of a suspended change of the finalizer.
    pub exiting: Option<Duration>,
    /// The time until a reconcile handler is due, zero for now; `None` if there is none, or if the object is
    /// being deleted.
    pub reconciling: Option<Duration>,
    /// Some handlers were called with another essence than the current one, and are owed an update.
    pub outdated: bool,
    /// The patch that is written regardless of change handlers.
    pub patch: PendingPatch,
    /// A digest of the cause and the progress of its handlers.
    pub fingerprint: Fingerprint,
    /// It is unknown whether some daemons or timers must run, because their filters failed.
    pub uncertain: bool,
}

impl Facts {
    /// Returns `true` if a reconcile handler is due.
    pub(super) fn is_reconciled_now(&self) -> bool {
        self.reconciling.is_some_and(|delay| delay.is_zero())
    }
}

/// The finalizer of the operator on one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Finalizer {
    /// Required and present.
    Kept,
    /// Present on an object whose deletion is handled: only the removal is left.
    Released,
    /// Required and absent.
    Missing,
    /// Present and not required.
    Unneeded,
    /// Absent and not required.
    Absent,
}

impl Finalizer {
    /// Returns the state of the finalizer.
    pub fn new(is_required: bool, is_present: bool) -> Self {
        match (is_required, is_present) {
            (true, true) => Self::Kept,
            (true, false) => Self::Missing,
            (false, true) => Self::Unneeded,
            (false, false) => Self::Absent,
        }
    }

    /// Returns the change that is needed before changes are handled. An object that is being
    /// deleted never gets a finalizer: Kubernetes rejects that.
    pub fn change(self, is_deleting: bool) -> Option<FinalizerChange> {
        match self {
            Self::Missing if !is_deleting => Some(FinalizerChange::Add),
            Self::Unneeded => Some(FinalizerChange::Drop),
            Self::Released => Some(FinalizerChange::Release),
            _ => None,
        }
    }
}

/// A change of the finalizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FinalizerChange {
    /// It is required and absent.
    Add,
    /// It is present and not required.
    Drop,
    /// All work that the deletion waits for is done.
    Release,
}

/// The part of a cycle's patch that exists before change handlers are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PendingPatch {
    /// Nothing is to be written.
    Empty,
    /// There is something to write.
    Some,
    /// There is something to write that the change handlers must see: child handlers have changed
    /// the object, and the same children have woken up change handlers.
    First,
    /// Transformations of an earlier cycle are to be applied first: the object had changed.
    Carried,
}

impl PendingPatch {
    /// Returns the state of a patch without carried transformations.
    pub fn new(is_empty: bool) -> Self {
        if is_empty { Self::Empty } else { Self::Some }
    }
}

/// The decision of one cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Plan {
    /// Wait for the own write to arrive.
    AwaitEcho,
    /// Write the finalizer and the pending patch; the changes are handled after that.
    WriteFirst(Option<FinalizerChange>),
    /// Call the change handlers for this reason.
    Handle(Reason),
    /// Call a reconcile handler.
    Reconcile,
    /// Nothing to handle. The reason is for the log.
    Skip(Option<Reason>),
}

/// Plans a cycle. `change` is the needed change of the finalizer, unless it is suspended after changes that had
/// no effect.
pub fn plan(facts: &Facts, change: Option<FinalizerChange>, consistency: Consistency) -> Plan {
    if facts.event == EventType::Deleted {
        return Plan::Skip(facts.reason);
    }
    let is_consistent = consistency == Consistency::Seen;
    let Some(reason) = facts.reason else {
        return match change {
            None if facts.is_reconciled_now() => reconcile(facts.patch, consistency),
            None => Plan::Skip(None),
            change => Plan::WriteFirst(change),
        };
    };
    if change.is_some() {
        return Plan::WriteFirst(change);
    }
    match facts.patch {
        PendingPatch::Empty if !is_consistent => Plan::AwaitEcho,
        PendingPatch::Some | PendingPatch::First if !is_consistent => Plan::WriteFirst(None),
        PendingPatch::First if reason.is_handled() => Plan::WriteFirst(None),
        PendingPatch::Carried => Plan::WriteFirst(None),
        _ if reason.is_handled() || facts.outdated => Plan::Handle(reason),
        _ if facts.is_reconciled_now() => reconcile(facts.patch, consistency),
        _ => Plan::Skip(Some(reason)),
    }
}

/// Plans the call of a reconcile handler. It is called with the object as patched by other handlers, so that
/// their changes can be distinguished from its own ones.
fn reconcile(patch: PendingPatch, consistency: Consistency) -> Plan {
    match (patch, consistency) {
        (PendingPatch::Empty, Consistency::Seen) => Plan::Reconcile,
        (PendingPatch::Empty, Consistency::Awaited) => Plan::AwaitEcho,
        _ => Plan::WriteFirst(None),
    }
}

/// The age of the newest version, compared with the last own write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Consistency {
    /// It is, or no own write is awaited.
    Seen,
    /// The own write has not arrived yet.
    Awaited,
}
