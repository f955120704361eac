//! Reasons to stop a daemon or a timer.

use std::fmt;
use std::ops::{BitOr, BitOrAssign};

/// Reasons to stop a daemon or a timer: one or several, since they accumulate.
///
/// ```
/// use kopf_core::background::StopReason;
///
/// let reason = StopReason::RESOURCE_DELETED | StopReason::DAEMON_SIGNALLED;
/// assert!(reason.contains(StopReason::RESOURCE_DELETED));
/// assert_eq!(reason.bits(), 36);
/// assert_eq!(reason.to_string(), "RESOURCE_DELETED|DAEMON_SIGNALLED");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StopReason(u8);

impl StopReason {
    /// It is not stopped.
    pub const NONE: Self = Self(0);
    /// It has ended.
    pub const DONE: Self = Self(1);
    /// The object does not match its filters any more.
    pub const FILTERS_MISMATCH: Self = Self(2);
    /// The object is marked for deletion, or deleted.
    pub const RESOURCE_DELETED: Self = Self(4);
    /// The operator is paused in favour of another one.
    pub const OPERATOR_PAUSING: Self = Self(8);
    /// The operator exits.
    pub const OPERATOR_EXITING: Self = Self(16);
    /// It was signalled to end, and has time to do so.
    pub const DAEMON_SIGNALLED: Self = Self(32);
    /// It did not end in time, and was cancelled.
    pub const DAEMON_CANCELLED: Self = Self(64);
    /// It did not end after the cancellation, and is not awaited any longer.
    pub const DAEMON_ABANDONED: Self = Self(128);

    const NAMES: [(Self, &str); 8] = [
        (Self::DONE, "DONE"),
        (Self::FILTERS_MISMATCH, "FILTERS_MISMATCH"),
        (Self::RESOURCE_DELETED, "RESOURCE_DELETED"),
        (Self::OPERATOR_PAUSING, "OPERATOR_PAUSING"),
        (Self::OPERATOR_EXITING, "OPERATOR_EXITING"),
        (Self::DAEMON_SIGNALLED, "DAEMON_SIGNALLED"),
        (Self::DAEMON_CANCELLED, "DAEMON_CANCELLED"),
        (Self::DAEMON_ABANDONED, "DAEMON_ABANDONED"),
    ];

    /// Returns `true` if all of these reasons are present.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns `true` if any of these reasons is present.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns `true` if there is no reason.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the reasons as a number, one bit for each, as in the original.
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Converts a number to reasons.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }
}

impl BitOr for StopReason {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for StopReason {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = Self::NAMES
            .iter()
            .filter(|(reason, _)| self.contains(*reason))
            .map(|(_, name)| *name)
            .collect();
        f.pad(&names.join("|"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_original() {
        let bits: Vec<u8> = StopReason::NAMES.iter().map(|(r, _)| r.bits()).collect();
        assert_eq!(bits, [1, 2, 4, 8, 16, 32, 64, 128]);
        assert_eq!(
            StopReason::from_bits(6).to_string(),
            "FILTERS_MISMATCH|RESOURCE_DELETED"
        );
        assert_eq!(StopReason::NONE.to_string(), "");
    }

    #[test]
    fn reasons_accumulate() {
        let mut reason = StopReason::NONE;
        assert!(reason.is_empty());
        reason |= StopReason::DONE;
        reason |= StopReason::OPERATOR_EXITING;
        assert_eq!(reason, StopReason::DONE | StopReason::OPERATOR_EXITING);
        assert!(reason.contains(StopReason::DONE) && reason.contains(reason));
        assert!(!reason.contains(StopReason::DONE | StopReason::RESOURCE_DELETED));
        assert!(reason.intersects(StopReason::DONE | StopReason::RESOURCE_DELETED));
    }
}
