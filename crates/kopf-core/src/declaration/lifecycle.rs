//! Lifecycles: the selection and the order of due handlers in one cycle.
//!
//! A lifecycle gets the handlers that are neither finished nor delayed. Those that it omits are
//! offered again in the next cycle.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cause::Cause;
use crate::handler::HandlerId;

/// A handler that can run now.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Candidate<'a> {
    /// The full id.
    pub id: &'a HandlerId,
    /// The number of previous attempts.
    pub retries: u32,
}

impl<'a> Candidate<'a> {
    /// Returns a candidate, such as for tests of a custom [`Lifecycle`].
    ///
    /// ```
    /// use kopf_core::lifecycle::Candidate;
    ///
    /// let id = "create_fn".into();
    /// assert_eq!(Candidate::new(&id, 3).retries, 3);
    /// ```
    pub fn new(id: &'a HandlerId, retries: u32) -> Self {
        Self { id, retries }
    }
}

/// A strategy to select handlers.
pub trait Lifecycle: Send + Sync + fmt::Debug {
    /// Returns the positions of the handlers to run now, in order. The candidates are in the order
    /// of registration. Positions out of range are ignored.
    fn pick(&self, candidates: &[Candidate<'_>], cause: &Cause, context: &dyn Any) -> Vec<usize>;

    /// Like [`pick`](Self::pick), for lifecycles that can fail. No handler is called then, and the
    /// object is tried again later.
    ///
    /// # Errors
    ///
    /// The lifecycle has failed.
    fn try_pick(
        &self,
        candidates: &[Candidate<'_>],
        cause: &Cause,
        context: &dyn Any,
    ) -> Result<Vec<usize>, Error> {
        Ok(self.pick(candidates, cause, context))
    }
}

/// The failure of a lifecycle, with its cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lifecycle has failed: {0}")]
pub struct Error(pub String);

/// The default: one handler per cycle, the one with the fewest attempts; among equals the first.
///
/// A failing handler does not block the others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asap;

impl Lifecycle for Asap {
    fn pick(&self, candidates: &[Candidate<'_>], _: &Cause, _: &dyn Any) -> Vec<usize> {
        let best = candidates
            .iter()
            .enumerate()
            .min_by_key(|(_, candidate)| candidate.retries);
        best.map(|(index, _)| index).into_iter().collect()
    }
}

/// One handler per cycle, the first; a failing one blocks the others until it is delayed.
#[derive(Clone, Copy, Debug, Default)]
pub struct OneByOne;

impl Lifecycle for OneByOne {
    fn pick(&self, candidates: &[Candidate<'_>], _: &Cause, _: &dyn Any) -> Vec<usize> {
        (0..candidates.len().min(1)).collect()
    }
}

/// All handlers in one cycle, in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct AllAtOnce;

impl Lifecycle for AllAtOnce {
    fn pick(&self, candidates: &[Candidate<'_>], _: &Cause, _: &dyn Any) -> Vec<usize> {
        (0..candidates.len()).collect()
    }
}

/// One handler per cycle, selected at random.
#[derive(Debug)]
pub struct Randomized(Random);

impl Randomized {
    /// Creates a lifecycle with a seed, which determines the selection.
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }
}

impl Lifecycle for Randomized {
    fn pick(&self, candidates: &[Candidate<'_>], _: &Cause, _: &dyn Any) -> Vec<usize> {
        self.0.below(candidates.len()).into_iter().collect()
    }
}

/// All handlers in one cycle, in random order.
#[derive(Debug)]
pub struct Shuffled(Random);

impl Shuffled {
    /// Creates a lifecycle with a seed, which determines the order.
    pub fn new(seed: u64) -> Self {
        Self(Random::new(seed))
    }
}

impl Lifecycle for Shuffled {
    fn pick(&self, candidates: &[Candidate<'_>], _: &Cause, _: &dyn Any) -> Vec<usize> {
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        for end in (1..order.len()).rev() {
            if let Some(other) = self.0.below(end + 1) {
                order.swap(end, other);
            }
        }
        order
    }
}

/// Creates a lifecycle from a function.
///
/// ```
/// use kopf_core::lifecycle::{Candidate, lifecycle_fn};
///
/// let last_first = lifecycle_fn(|candidates: &[Candidate<'_>], _cause, _context| {
///     (0..candidates.len()).rev().collect()
/// });
/// # let _: &dyn kopf_core::lifecycle::Lifecycle = &last_first;
/// ```
pub fn lifecycle_fn<F>(function: F) -> impl Lifecycle
where
    F: Fn(&[Candidate<'_>], &Cause, &dyn Any) -> Vec<usize> + Send + Sync,
{
    Custom(function)
}

struct Custom<F>(F);

impl<F> Lifecycle for Custom<F>
where
    F: Fn(&[Candidate<'_>], &Cause, &dyn Any) -> Vec<usize> + Send + Sync,
{
    fn pick(&self, candidates: &[Candidate<'_>], cause: &Cause, context: &dyn Any) -> Vec<usize> {
        (self.0)(candidates, cause, context)
    }
}

impl<F> fmt::Debug for Custom<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Custom")
    }
}

/// A splitmix64 generator: sufficient to select handlers, and shared without a lock.
#[derive(Debug)]
struct Random(AtomicU64);

impl Random {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

    fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    fn next(&self) -> u64 {
        let state = self
            .0
            .fetch_add(Self::STEP, Ordering::Relaxed)
            .wrapping_add(Self::STEP);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below the limit; `None` if the limit is zero.
    fn below(&self, limit: usize) -> Option<usize> {
        let limit = u64::try_from(limit).ok().filter(|&limit| limit > 0)?;
        // The high half of the product has a negligible modulo bias.
        let scaled = (u128::from(self.next()) * u128::from(limit)) >> 64;
        usize::try_from(scaled).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::body::Body;
    use crate::resource::Resource;

    fn picked(lifecycle: &dyn Lifecycle, retries: &[u32]) -> Vec<usize> {
        let cause = Cause {
            resource: Arc::new(Resource::default()),
            body: Body::new(json!({})),
            event: None,
            change: None,
        };
        let id: HandlerId = "id".into();
        let candidates: Vec<_> = retries
            .iter()
            .map(|&retries| Candidate { id: &id, retries })
            .collect();
        lifecycle.pick(&candidates, &cause, &())
    }

    #[test]
    fn asap_picks_the_least_tried_and_among_equals_the_first() {
        assert_eq!(picked(&Asap, &[1, 0, 0]), [1]);
        assert_eq!(picked(&Asap, &[2, 1, 3]), [1]);
        assert_eq!(picked(&Asap, &[]), [0; 0]);
    }

    #[test]
    fn one_by_one_picks_the_first() {
        assert_eq!(picked(&OneByOne, &[5, 0]), [0]);
        assert_eq!(picked(&OneByOne, &[]), [0; 0]);
    }

    #[test]
    fn all_at_once_picks_all_in_order() {
        assert_eq!(picked(&AllAtOnce, &[5, 0, 1]), [0, 1, 2]);
    }

    #[test]
    fn randomized_picks_every_handler_eventually() {
        let lifecycle = Randomized::new(7);
        let mut seen = BTreeSet::new();
        for _ in 0..100 {
            let picks = picked(&lifecycle, &[0, 0, 0]);
            assert_eq!(picks.len(), 1);
            seen.extend(picks);
        }
        assert_eq!(seen, BTreeSet::from([0, 1, 2]));
        assert_eq!(picked(&lifecycle, &[]), [0; 0]);
    }

    #[test]
    fn shuffled_picks_all_in_every_order() {
        let lifecycle = Shuffled::new(7);
        let mut seen = BTreeSet::new();
        for _ in 0..200 {
            let picks = picked(&lifecycle, &[0, 0, 0]);
            assert_eq!(
                BTreeSet::from_iter(picks.clone()),
                BTreeSet::from([0, 1, 2])
            );
            seen.insert(picks);
        }
        assert_eq!(seen.len(), 6);
    }

    #[test]
    fn same_seed_gives_the_same_picks() {
        let picks = |seed| {
            let lifecycle = Shuffled::new(seed);
            (0..5)
                .map(|_| picked(&lifecycle, &[0; 8]))
                .collect::<Vec<_>>()
        };
        assert_eq!(picks(1), picks(1));
        assert_ne!(picks(1), picks(2));
    }

    #[test]
    fn functions_are_lifecycles() {
        let backwards = lifecycle_fn(|candidates, _, _| (0..candidates.len()).rev().collect());
        assert_eq!(picked(&backwards, &[0, 0]), [1, 0]);
    }
}
