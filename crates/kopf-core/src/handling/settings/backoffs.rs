//! Delays after the first failure, the second one, and so on.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A sequence of delays between attempts, finite or infinite.
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
pub struct Backoffs(Delays);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Delays {
    Finite(Vec<Duration>),
    Repeating(Vec<Duration>),
    Generated(Generator),
}

impl Default for Delays {
    fn default() -> Self {
        Self::Finite(Vec::new())
    }
}

type Iter<'a> = Box<dyn Iterator<Item = Duration> + Send + 'a>;

/// Makes a new iterator for every sequence of attempts. Equal only to its clones.
#[derive(Clone)]
struct Generator(Arc<dyn Fn() -> Iter<'static> + Send + Sync>);

impl PartialEq for Generator {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Generator {}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Generator")
    }
}

impl Backoffs {
    /// Allows as many further attempts as there are delays. The delays must be finite: see
    /// [`generated`](Self::generated) for infinite ones.
    pub fn finite(delays: impl IntoIterator<Item = Duration>) -> Self {
        Self(Delays::Finite(delays.into_iter().collect()))
    }

    /// Allows attempts without end: the last delay repeats. Without delays, no attempts.
    pub fn repeating(delays: impl IntoIterator<Item = Duration>) -> Self {
        Self(Delays::Repeating(delays.into_iter().collect()))
    }

    /// Takes the delays of every sequence of attempts from a new iterator, which may be infinite or
    /// random.
    ///
    /// ```
    /// use std::time::Duration;
    /// use kopf_core::settings::Backoffs;
    ///
    /// let doubling = Backoffs::generated(|| (0..16).map(|n| Duration::from_millis(100 << n)));
    /// assert_eq!(doubling.get(3), Some(Duration::from_millis(800)));
    /// ```
    pub fn generated<I>(make: impl Fn() -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator<Item = Duration>,
        I::IntoIter: Send + 'static,
    {
        let make = move || -> Iter<'static> { Box::new(make().into_iter()) };
        Self(Delays::Generated(Generator(Arc::new(make))))
    }

    /// Allows no further attempts.
    pub fn none() -> Self {
        Self::default()
    }

    /// Returns the delay after this many earlier failures; `None` if there are no more attempts.
    pub fn get(&self, failures: usize) -> Option<Duration> {
        match &self.0 {
            Delays::Finite(delays) => delays.get(failures).copied(),
            Delays::Repeating(delays) => delays.get(failures).or(delays.last()).copied(),
            Delays::Generated(generator) => (generator.0)().nth(failures),
        }
    }

    /// Returns all delays in order. The iterator may be infinite.
    pub fn iter(&self) -> impl Iterator<Item = Duration> + Send + '_ {
        match &self.0 {
            Delays::Generated(generator) => (generator.0)(),
            _ => Box::new((0..).map_while(|failures| self.get(failures))) as Iter<'_>,
        }
    }
}

impl From<Duration> for Backoffs {
    /// Allows one further attempt.
    fn from(delay: Duration) -> Self {
        Self::finite([delay])
    }
}

impl FromIterator<Duration> for Backoffs {
    fn from_iter<I: IntoIterator<Item = Duration>>(delays: I) -> Self {
        Self::finite(delays)
    }
}

/// Returns whole seconds, as in the lists of defaults.
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

    #[test]
    fn generated_sequences_start_again_every_time() {
        let endless = Backoffs::generated(|| (1..).map(Duration::from_secs));
        for _ in 0..2 {
            let first: Vec<_> = endless.iter().take(3).collect();
            assert_eq!(first, seconds([1, 2, 3]).collect::<Vec<_>>());
        }
        assert_eq!(endless.get(9), Some(Duration::from_secs(10)));
        assert_eq!(endless, endless.clone());
        assert_ne!(
            endless,
            Backoffs::generated(|| (1..).map(Duration::from_secs))
        );
    }
}
