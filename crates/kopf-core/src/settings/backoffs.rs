//! How long to wait after the first failure, the second one, and so on.

use std::time::Duration;

/// A sequence of delays between attempts; it may never end.
///
/// ```
/// use std::time::Duration;
/// use kopf_core::settings::Backoffs;
///
/// let seconds = |n| Duration::from_secs(n);
/// let twice = Backoffs::finite([seconds(1), seconds(5)]); // 3 attempts
/// assert_eq!(twice.get(1), Some(seconds(5)));
/// assert_eq!(twice.get(2), None);
/// let forever = Backoffs::repeating([seconds(1), seconds(5)]);
/// assert_eq!(forever.get(1000), Some(seconds(5)));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backoffs {
    delays: Vec<Duration>,
    repeats_last: bool,
}

impl Backoffs {
    /// As many further attempts as there are delays.
    pub fn finite(delays: impl IntoIterator<Item = Duration>) -> Self {
        Self {
            delays: delays.into_iter().collect(),
            repeats_last: false,
        }
    }

    /// Attempts without end, with the last delay from some time on. Without delays: no attempts.
    pub fn repeating(delays: impl IntoIterator<Item = Duration>) -> Self {
        Self {
            delays: delays.into_iter().collect(),
            repeats_last: true,
        }
    }

    /// No further attempts.
    pub fn none() -> Self {
        Self::default()
    }

    /// The delay after that many failures before this one; none if it was the last attempt.
    pub fn get(&self, failures: usize) -> Option<Duration> {
        let last = self.delays.last().filter(|_| self.repeats_last);
        self.delays.get(failures).or(last).copied()
    }

    /// All delays in order; it may never end.
    pub fn iter(&self) -> impl Iterator<Item = Duration> + '_ {
        (0..).map_while(|failures| self.get(failures))
    }
}

impl From<Duration> for Backoffs {
    /// One further attempt.
    fn from(delay: Duration) -> Self {
        Self::finite([delay])
    }
}

impl FromIterator<Duration> for Backoffs {
    fn from_iter<I: IntoIterator<Item = Duration>>(delays: I) -> Self {
        Self::finite(delays)
    }
}

/// Whole seconds, as in the lists of defaults.
pub(super) fn seconds<const N: usize>(list: [u64; N]) -> impl Iterator<Item = Duration> {
    list.into_iter().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finite_sequences_end() {
        let backoffs = Backoffs::finite(seconds([1, 2]));
        assert_eq!(
            backoffs.iter().collect::<Vec<_>>(),
            seconds([1, 2]).collect::<Vec<_>>()
        );
        assert_eq!(Backoffs::from(Duration::from_secs(3)).iter().count(), 1);
    }

    #[test]
    fn repeating_sequences_do_not_end_unless_empty() {
        let backoffs = Backoffs::repeating(seconds([1, 2]));
        let first: Vec<_> = backoffs.iter().take(4).collect();
        assert_eq!(first, seconds([1, 2, 2, 2]).collect::<Vec<_>>());
        assert_eq!(Backoffs::repeating([]).get(0), None);
        assert_eq!(Backoffs::none().get(0), None);
    }
}
