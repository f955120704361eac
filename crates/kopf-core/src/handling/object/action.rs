//! Actions: the effects that a driver performs for the machine of one object.

use std::time::Duration;

use super::echo::Covered;
use super::plan::FinalizerChange;
use crate::cause::Reason;

/// An output of [`Machine::step`](super::Machine::step). Actions are performed in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Update the indices with the version that has arrived.
    Index,
    /// Call the event handlers with the version that has arrived.
    CallEventHandlers,
    /// Start the daemons and timers that match the newest version, and stop the others; gather the
    /// facts of that version, and feed [`Planned`](super::Input::Planned).
    Plan,
    /// Call the due change handlers, and feed
    /// [`HandlersFinished`](super::Input::HandlersFinished).
    Run(Reason),
    /// Call the reconcile handler that is due, and feed
    /// [`HandlersFinished`](super::Input::HandlersFinished).
    Reconcile,
    /// Send the patch of this cycle, and feed the result.
    Write(Option<FinalizerChange>),
    /// Send the patch that could not be sent before, and feed the result.
    Resend,
    /// Record that the handlers of the deletion have finished, if the server has refused to remove the
    /// finalizer.
    Record,
    /// Drop the patch that could not be sent: the object has changed, and its handlers are called
    /// again.
    DropUnsent,
    /// Continue from the response to the last write if it is newer than the newest version: the
    /// event of that write has not arrived in time.
    AdoptResponse,
    /// Wake the object up by a write of its own, as the original does.
    Touch,
    /// Ignore the events up to the version of the last write: it needs no cycle.
    Cover(Option<Covered>),
    /// Write a log record.
    Log(Message),
    /// Log the failure of the framework that was fed last, with the time after which the cycle is
    /// repeated; `None` if it waits for the next event.
    ReportFailure(Option<Duration>),
    /// Forget everything about the object: it is gone, or another one has taken its place.
    Forget,
}

/// A log record of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Message {
    /// The object is gone, or free to go, or unchanged.
    Unhandled(Reason),
    /// The finalizer is about to be added.
    AddingFinalizer,
    /// The finalizer is about to be removed, because nothing requires it.
    DroppingFinalizer,
    /// The finalizer is about to be removed, because everything is handled.
    RemovingFinalizer,
    /// A handler is due after this time.
    Sleeping(Duration),
    /// A handler is due after this time, but the write wakes the object up earlier.
    SleepingSkipped(Duration),
    /// An event has arrived this long before the handler was due.
    SleepingInterrupted(Duration),
    /// The cycle is complete.
    CycleFinished,
    /// The object was not found when it was patched.
    PatchSkipped,
    /// A series of failures has ended with a success.
    ThrottlingOver,
    /// The previous cycle had no visible effect; the next one follows after this time.
    Stalled(Duration),
    /// Each own write comes with another change to be handled; it is handled after this time.
    Stamped(Duration),
    /// The server, or another client, reverts changes of the finalizer; the next one follows after
    /// this time.
    FinalizerReverted(Duration),
}
