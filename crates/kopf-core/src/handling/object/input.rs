//! Inputs of the machine of one object.

use std::time::Duration;

use super::echo::Awaited;
use super::plan::{Facts, PendingPatch};
use super::stamping::Stamp;
use super::state::Snapshot;
use crate::cause::EventType;

/// An input of [`Machine::step`](super::Machine::step).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A version of the object has arrived, by the watch stream or in a listing.
    Event {
        /// The type of the event.
        event: EventType,
        /// Its resource version.
        version: Option<Box<str>>,
    },
    /// A version was superseded before it was processed. Its arrival still counts as an echo.
    Superseded {
        /// Its resource version.
        version: Box<str>,
    },
    /// All queued versions were shown to the indices and the event handlers; this is the newest.
    Newest {
        /// The type of its event.
        event: EventType,
        /// The state requested by users.
        snapshot: Snapshot,
    },
    /// The object is absent from a complete listing.
    Vanished,
    /// The facts for a cycle are gathered.
    Planned(Facts),
    /// The due change handlers of this cycle were called.
    HandlersFinished(Handled),
    /// The server has accepted the patch.
    Written(Response),
    /// The server has rejected the transformations of the patch, because the object has changed;
    /// the rest was accepted, with this response to the last request, if any was sent.
    Conflicted(Option<Response>),
    /// The patch could not be sent.
    WriteFailed {
        /// The server rejects the content of the patch.
        rejected: bool,
    },
    /// The object does not exist on the server.
    NotFound,
    /// No version of the object could be read so far, so there is nothing to plan.
    NoVersion,
    /// The framework failed before anything was to be sent: a filter, a storage, a broken body.
    Failed,
    /// A daemon or a timer that was being stopped has exited.
    RunnerExited,
    /// The moment returned by [`Machine::deadline`](super::Machine::deadline) has come.
    Deadline,
    /// The operator is paused: nothing may begin because of time.
    Paused(PendingPatch),
}

/// The result of the change handlers of one cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Handled {
    /// When the next handler is due; `None` if all are finished.
    pub due: Option<Duration>,
    /// Some handlers were called.
    pub attempted: bool,
    /// The patch of the cycle.
    pub patch: PendingPatch,
    /// The framework failed after the handlers were called, so that the cycle must be repeated.
    pub failed: bool,
}

/// The response to the last request of a patch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Response {
    /// The event that proves that the write has arrived; `None` if no request was needed.
    pub awaited: Option<Awaited>,
    /// The effect of the write.
    pub effect: Effect,
    /// The change that came with the write.
    pub stamp: Option<Stamp>,
}

impl Response {
    /// The result of a write that needed no request.
    pub const NONE: Self = Self {
        awaited: None,
        effect: Effect::None,
        stamp: None,
    };
}

/// The effect of a write, judged by its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The object has the version it had before.
    None,
    /// The object has changed.
    Changed,
    /// The object has changed, and nothing in the new version needs another cycle.
    Settled,
}
