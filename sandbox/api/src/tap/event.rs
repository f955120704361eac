//! Watch events as a tap sees them, and the decisions about them.

use tokio_util::sync::CancellationToken;

use super::commit::ObjectVersion;
use crate::store::Change;

/// An event of a watch.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TapEvent {
    /// The type of the event for this watch. With selectors, it can differ from that of the change.
    pub change: Change,
    /// The state in the event; for deletions, the last state.
    pub object: ObjectVersion,
    /// `true` for the objects that a watch begins with.
    pub initial: bool,
}

impl TapEvent {
    pub(crate) fn new(change: Change, object: ObjectVersion, initial: bool) -> Self {
        Self {
            change,
            object,
            initial,
        }
    }
}

/// The decision about an event of a watch.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Delivery {
    /// It is sent.
    #[default]
    Deliver,
    /// It is dropped. The client never gets it, unless it lists the objects.
    Skip,
    /// It waits.
    Hold(Hold),
    /// The watch ends with the error 410 `Expired` instead of the event: the client has to list the
    /// objects.
    Expire,
    /// The connection breaks instead of the event.
    Break,
}

/// Events that wait until a gate is opened.
///
/// A watch whose events are held sends no bookmarks. A hold ends with its watch: then the client
/// gets the held events when it watches again from the last version that it knows. That version can
/// be newer than a held one if only one object is held, so held events of single objects are sent
/// before a watch times out. Held events of a client that disconnects are lost to it; hold
/// [whole watches](HoldScope::Watch) if that can happen.
///
/// ```
/// use kopf_sandbox::tap::{Delivery, Gate, Hold, OnRelease, Tap, TapEvent, TapRequest};
///
/// /// Hides what happens to pods until the gate opens; then only their newest state is seen.
/// struct Gap {
///     gate: Gate,
/// }
///
/// impl Tap for Gap {
///     fn on_event(&self, watch: &TapRequest, event: &TapEvent) -> Delivery {
///         if watch.resource != "pods" || event.initial || self.gate.is_open() {
///             return Delivery::Deliver;
///         }
///         Delivery::Hold(Hold::object(&self.gate).then(OnRelease::Latest))
///     }
/// }
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Hold {
    pub(crate) gate: Gate,
    pub(crate) scope: HoldScope,
    pub(crate) on_release: OnRelease,
}

impl Hold {
    /// Holds this and later events of the same object until the gate is open. Later events of other
    /// objects are sent before. Of initial events, the whole watch is held.
    pub fn object(gate: &Gate) -> Self {
        Self {
            gate: gate.clone(),
            scope: HoldScope::Object,
            on_release: OnRelease::All,
        }
    }

    /// Holds this and all later events of the watch until the gate is open.
    pub fn watch(gate: &Gate) -> Self {
        Self {
            scope: HoldScope::Watch,
            ..Self::object(gate)
        }
    }

    /// Sets what happens when the gate opens. By default, all held events are sent.
    pub fn then(mut self, on_release: OnRelease) -> Self {
        self.on_release = on_release;
        self
    }
}

/// The events that a [`Hold`] applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldScope {
    /// Those of the same object.
    Object,
    /// All of the same watch.
    Watch,
}

/// The fate of held events when their gate opens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnRelease {
    /// All of them are sent, in order.
    #[default]
    All,
    /// One event per object is sent, with the newest state: `ADDED` if the client does not know the
    /// object, or one with this uid; `DELETED` if the client knows it and it is gone; otherwise
    /// `MODIFIED`. Objects that came and went are not mentioned.
    Latest,
    /// None is sent: the watch ends with the error 410 `Expired`.
    Expire,
    /// None is sent: the connection breaks.
    Break,
}

/// A gate that is closed until it is opened, once. Clones refer to the same gate.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let gate = kopf_sandbox::tap::Gate::new();
/// assert!(!gate.is_open());
/// gate.open();
/// gate.opened().await;
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Gate {
    opened: CancellationToken,
}

impl Gate {
    /// Returns a closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the gate.
    pub fn open(&self) {
        self.opened.cancel();
    }

    /// Returns `true` if the gate is open.
    pub fn is_open(&self) -> bool {
        self.opened.is_cancelled()
    }

    /// Waits until the gate is open.
    pub async fn opened(&self) {
        self.opened.cancelled().await;
    }
}
