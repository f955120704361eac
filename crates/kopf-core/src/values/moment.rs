//! Points in monotonic time.

use std::time::Duration;

/// Upper bound for delays. Adding it to any moment of a running operator cannot overflow.
const LONGEST_DELAY: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);

/// A point in monotonic time, counted from the start of the operator.
///
/// ```
/// use kopf_core::object::Moment;
/// use std::time::Duration;
///
/// let start = Moment::default();
/// let later = start.after(Duration::from_secs(5));
/// assert_eq!(later.since(start), Duration::from_secs(5));
/// assert_eq!(start.since(later), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// Returns the moment at this distance from the start of the operator.
    pub const fn new(since_start: Duration) -> Self {
        Self(since_start)
    }

    /// Returns the moment after a delay. Delays above thirty years are cut: they come from users
    /// and from annotations.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self(self.0.saturating_add(delay.min(LONGEST_DELAY)))
    }

    /// Returns the time since another moment; zero if that one is later.
    pub fn since(self, other: Self) -> Duration {
        self.0.saturating_sub(other.0)
    }
}
