//! Who may work on objects now: a bounded number at once, changes ahead of listed objects, and what has
//! begun ahead of all: it is safe only when it is written, and holds much more memory until then.
//!
//! A turn is held while something is decided or written, never while a handler runs or an object
//! sleeps: a handler that takes an hour must not starve the others.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Every so many turns, a listed object is served even if changes wait.
const LISTING_SHARE: u32 = 16;

/// In which line to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Handlers were called, and something is to be written.
    Begun,
    /// Something has changed.
    Fresh,
    /// Something was there when the stream began.
    Listing,
}

/// Gives out turns. Cheap to clone: clones share the turns.
#[derive(Debug, Clone)]
pub(crate) struct Turns(Arc<Mutex<Lines>>);

#[derive(Debug)]
struct Lines {
    free: usize,
    served: u32,
    begun: VecDeque<oneshot::Sender<Turn>>,
    fresh: VecDeque<oneshot::Sender<Turn>>,
    listing: VecDeque<oneshot::Sender<Turn>>,
}

/// The right to work; given back by dropping it.
#[derive(Debug)]
#[must_use]
pub(crate) struct Turn(Option<Turns>);

impl Turns {
    pub(crate) fn new(permits: usize) -> Self {
        Self(Arc::new(Mutex::new(Lines {
            free: permits.max(1),
            served: 0,
            begun: VecDeque::new(),
            fresh: VecDeque::new(),
            listing: VecDeque::new(),
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits in line. Cancel-safe: who leaves loses only the place.
    pub(crate) async fn take(&self, lane: Lane) -> Turn {
        loop {
            let waiting = {
                let mut lines = self.lock();
                if lines.free > 0 {
                    lines.free -= 1;
                    return Turn(Some(self.clone()));
                }
                let (sender, receiver) = oneshot::channel();
                match lane {
                    Lane::Begun => lines.begun.push_back(sender),
                    Lane::Fresh => lines.fresh.push_back(sender),
                    Lane::Listing => lines.listing.push_back(sender),
                }
                receiver
            };
            // A sender is dropped only with a turn in it, or together with the lines.
            if let Ok(turn) = waiting.await {
                return turn;
            }
        }
    }
}

impl Lines {
    fn next(&mut self) -> Option<oneshot::Sender<Turn>> {
        if let Some(next) = self.begun.pop_front() {
            return Some(next);
        }
        self.served = self.served.wrapping_add(1);
        if self.served.is_multiple_of(LISTING_SHARE) {
            self.listing.pop_front().or_else(|| self.fresh.pop_front())
        } else {
            self.fresh.pop_front().or_else(|| self.listing.pop_front())
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(turns) = self.0.take() else { return };
        loop {
            let next = {
                let mut lines = turns.lock();
                // Those who have left the line are skipped.
                let next = std::iter::from_fn(|| lines.next()).find(|next| !next.is_closed());
                if next.is_none() {
                    lines.free += 1;
                }
                next
            };
            let Some(next) = next else { return };
            match next.send(Self(Some(turns.clone()))) {
                Ok(()) => return,
                // It has left right now. What comes back must not give the turn back again.
                Err(mut turn) => turn.0 = None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn what_has_begun_goes_before_what_has_not() {
        let turns = Turns::new(1);
        let current = turns.take(Lane::Fresh).await;
        let mut fresh = Box::pin(turns.take(Lane::Fresh));
        let mut begun = Box::pin(turns.take(Lane::Begun));
        assert!(fresh.as_mut().now_or_never().is_none());
        assert!(begun.as_mut().now_or_never().is_none());
        drop(current);
        assert!(fresh.as_mut().now_or_never().is_none());
        let turn = begun.as_mut().now_or_never().unwrap();
        drop(turn);
        assert!(fresh.as_mut().now_or_never().is_some());
    }

    #[tokio::test]
    async fn changes_go_first_and_listed_objects_are_not_starved() {
        let turns = Turns::new(1);
        let mut current = turns.take(Lane::Fresh).await;
        let mut listing: Vec<_> = (0..4)
            .map(|_| Box::pin(turns.take(Lane::Listing)))
            .collect();
        let mut fresh: Vec<_> = (0..40).map(|_| Box::pin(turns.take(Lane::Fresh))).collect();
        for waiting in listing.iter_mut().chain(&mut fresh) {
            assert!(
                waiting.as_mut().now_or_never().is_none(),
                "there is only one turn"
            );
        }
        let mut served = String::new();
        while !(listing.is_empty() && fresh.is_empty()) {
            drop(current);
            current = 'found: {
                for (line, name) in [(&mut fresh, 'f'), (&mut listing, 'l')] {
                    for position in 0..line.len() {
                        if let Some(turn) = line[position].as_mut().now_or_never() {
                            drop(line.remove(position));
                            served.push(name);
                            break 'found turn;
                        }
                    }
                }
                panic!("nobody was served");
            };
        }
        let expected = format!("{0}l{0}l{1}ll", "f".repeat(15), "f".repeat(10));
        assert_eq!(served, expected);
    }

    #[tokio::test]
    async fn who_leaves_the_line_takes_nothing_away() {
        let turns = Turns::new(1);
        let current = turns.take(Lane::Fresh).await;
        let mut leaving = Box::pin(turns.take(Lane::Fresh));
        assert!(leaving.as_mut().now_or_never().is_none());
        drop(leaving);
        let mut served_but_leaving = Box::pin(turns.take(Lane::Fresh));
        assert!(served_but_leaving.as_mut().now_or_never().is_none());
        drop(current);
        drop(served_but_leaving);
        drop(turns.take(Lane::Listing).await);
    }
}
