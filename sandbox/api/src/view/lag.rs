//! Delays of a cache behind the store.

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::store::Store;

/// The revision of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) revision: u64,
    /// The time at which it changes by itself.
    pub(crate) next: Option<Instant>,
}

impl Position {
    pub(super) fn fixed(revision: u64) -> Self {
        Self {
            revision,
            next: None,
        }
    }

    /// Returns the older of two positions, which can change when either does.
    pub(super) fn older(self, other: Self) -> Self {
        let next = [self.next, other.next].into_iter().flatten().min();
        Self {
            revision: self.revision.min(other.revision),
            next,
        }
    }
}

/// A cache that follows the store with a delay.
#[derive(Debug, Clone)]
pub struct Lag {
    /// Changes up to this revision are not delayed.
    floor: u64,
    /// Changes until then are not delayed.
    since: Option<Instant>,
    by: Duration,
    until: Option<Instant>,
    over: CancellationToken,
}

impl PartialEq for Lag {
    fn eq(&self, other: &Self) -> bool {
        (self.floor, self.since, self.by, self.until)
            == (other.floor, other.since, other.by, other.until)
    }
}

impl Lag {
    /// Returns the lag of all changes after a revision.
    pub fn after(floor: u64, by: Duration) -> Self {
        Self {
            floor,
            since: None,
            by,
            until: None,
            over: CancellationToken::new(),
        }
    }

    /// Begins the lag at a time.
    pub(crate) fn beginning(mut self, since: Instant) -> Self {
        self.since = Some(since);
        self
    }

    /// Ends the lag at a time, or when the token is cancelled.
    pub(crate) fn ending(mut self, until: Option<Instant>, over: CancellationToken) -> Self {
        (self.until, self.over) = (until, over);
        self
    }

    /// Waits until the lag is cancelled.
    pub(super) async fn cancelled(&self) {
        self.over.cancelled().await;
    }

    pub(super) fn is_over(&self) -> bool {
        let until = self.until;
        self.over.is_cancelled() || until.is_some_and(|until| Instant::now() >= until)
    }

    /// Returns the position of the cache; `None` if it is up to date.
    pub(super) fn position(&self, store: &Store) -> Option<Position> {
        if self.is_over() {
            return None;
        }
        let now = Instant::now();
        let shown_at = |committed: Instant| {
            if self.since.is_some_and(|since| committed <= since) {
                Some(committed)
            } else {
                committed.checked_add(self.by)
            }
        };
        let is_shown = |committed| shown_at(committed).is_some_and(|shown| shown <= now);
        let (revision, hidden) = store.horizon(is_shown);
        let shown = hidden.and_then(shown_at);
        let next = [shown, self.until.filter(|_| hidden.is_some())];
        Some(Position {
            revision: revision.max(self.floor),
            next: next.into_iter().flatten().min(),
        })
    }
}
