//! Reads from a watch cache that can lag.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::Views;
use super::lag::{Lag, Position};
use crate::status::{ApiError, Result};
use crate::store::{Key, Range, Snapshot, Store, Stored};

/// The time that a real server waits for its cache to reach a version.
const PATIENCE: Duration = Duration::from_secs(3);

/// A client as far as it determines the cache of its reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct CacheReader {
    pub(crate) user: String,
    pub(crate) endpoint: Arc<str>,
    /// The lag of this request, by a fault.
    pub(crate) lag: Option<Lag>,
}

impl CacheReader {
    /// Drops a lag that is over. [`moved`](Self::moved) would return at once because of it.
    pub(crate) fn refresh(&mut self) {
        self.lag.take_if(|lag| lag.is_over());
    }

    /// Returns the position of the cache; `None` if it is up to date.
    pub(crate) fn position(&self, views: &Views, store: &Store) -> Option<Position> {
        let view = views.position(&self.user, &self.endpoint, store);
        let lag = self.lag.as_ref().and_then(|lag| lag.position(store));
        [view, lag].into_iter().flatten().reduce(Position::older)
    }

    /// Waits until the position may have changed.
    pub(crate) async fn moved(&self, moves: &mut watch::Receiver<()>, next: Option<Instant>) {
        let time = async {
            match next {
                Some(next) => tokio::time::sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        let cancelled = async {
            match &self.lag {
                Some(lag) => lag.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Ok(()) = moves.changed() => {}
            () = time => {}
            () = cancelled => {}
        }
    }

    /// Waits until the cache has reached a version. Returns its position; `None` if it is up to date.
    ///
    /// # Errors
    ///
    /// The cache does not reach the version within [`PATIENCE`].
    pub(crate) async fn reach(
        &self,
        views: &Views,
        store: &Store,
        wanted: u64,
    ) -> Result<Option<u64>> {
        let deadline = Instant::now() + PATIENCE;
        let mut moves = views.moves();
        let mut reader = self.clone();
        loop {
            moves.mark_unchanged();
            reader.refresh();
            let Some(position) = reader.position(views, store) else {
                return Ok(None);
            };
            if position.revision >= wanted {
                return Ok(Some(position.revision));
            }
            if Instant::now() >= deadline {
                return Err(too_large(wanted, position.revision));
            }
            let next = position.next.map_or(deadline, |next| next.min(deadline));
            reader.moved(&mut moves, Some(next)).await;
        }
    }
}

/// Returns the error of a version that the server has not reached.
pub(crate) fn too_large(wanted: u64, current: u64) -> ApiError {
    let message = format!("Too large resource version: {wanted}, current: {current}");
    ApiError::timeout(message, 1).with_causes(serde_json::json!([{
        "reason": "ResourceVersionTooLarge",
        "message": "Too large resource version",
    }]))
}

/// Returns the objects in a cache at a revision. A cache is never older than the history of its
/// collection: a real server lists the objects when it cannot watch them.
pub(crate) fn list(
    store: &Store,
    collection: &str,
    range: Range<'_>,
    mut revision: u64,
) -> Snapshot {
    loop {
        match store.list_at(collection, range, revision) {
            Ok(snapshot) => return snapshot,
            Err(expired) => revision = expired.oldest.max(revision + 1),
        }
    }
}

/// Returns an object in a cache at a revision, as [`list`].
pub(crate) fn get(
    store: &Store,
    collection: &str,
    key: &Key,
    mut revision: u64,
) -> Option<Arc<Stored>> {
    loop {
        match store.get_at(collection, key, revision) {
            Ok(found) => return found,
            Err(expired) => revision = expired.oldest.max(revision + 1),
        }
    }
}
