//! Options of reconcile handlers.

use std::time::Duration;

/// The options of a reconcile handler.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Reconciliation {
    /// The time from the end of a call to the next one, if nothing else happens.
    pub every: Option<Duration>,
    /// `true` if the handler is also called for objects that are being deleted, which stay until then.
    pub finalizer: bool,
}

impl Reconciliation {
    /// Without a period and without a finalizer.
    pub const PLAIN: Self = Self {
        every: None,
        finalizer: false,
    };
}
