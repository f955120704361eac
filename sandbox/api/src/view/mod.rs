//! Views of servers whose watch cache lags; the public crate documents them.

mod cached;
mod lag;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kopf_sandbox_store::sync::Mutex;
use tokio::sync::watch;

pub(crate) use self::cached::{CacheReader, get, list, too_large};
pub use self::lag::Lag;
pub(crate) use self::lag::Position;
use crate::store::Store;

/// The clients of a view.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Viewer {
    User(String),
    Endpoint(String),
}

/// A view that is not up to date.
#[derive(Debug, Clone)]
pub enum Behind {
    /// It stays at a revision.
    Frozen(u64),
    /// It follows with a delay.
    Delayed(Lag),
}

impl Behind {
    fn position(&self, store: &Store) -> Option<Position> {
        match self {
            Self::Frozen(revision) => Some(Position::fixed(*revision)),
            Self::Delayed(lag) => lag.position(store),
        }
    }
}

/// The views of one sandbox. Clones share them.
#[derive(Clone, Default)]
pub struct Views {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// `true` if there are any views; read without the lock on every request.
    armed: AtomicBool,
    behind: Mutex<BTreeMap<Viewer, Behind>>,
    /// Marked as changed when a view moves.
    moves: watch::Sender<()>,
}

impl fmt::Debug for Views {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Views")
            .field(&*self.shared.behind.lock())
            .finish()
    }
}

impl Views {
    /// Changes the view of a client. `None` is the present.
    pub fn set(&self, viewer: &Viewer, new: Option<Behind>) {
        {
            let mut behind = self.shared.behind.lock();
            match new {
                Some(new) => behind.insert(viewer.clone(), new),
                None => behind.remove(viewer),
            };
            let armed = !behind.is_empty();
            self.shared.armed.store(armed, Ordering::Release);
        }
        self.shared.moves.send_replace(());
    }

    /// Returns the position of the view of a client; `None` for the present.
    pub fn revision(&self, viewer: &Viewer, store: &Store) -> Option<u64> {
        let behind = self.shared.behind.lock().get(viewer).cloned()?;
        let position = behind.position(store)?;
        Some(position.revision.min(store.revision()))
    }

    /// Returns the position of a client by its endpoint and user: the older one, if both are behind.
    pub(crate) fn position(&self, user: &str, endpoint: &str, store: &Store) -> Option<Position> {
        if !self.shared.armed.load(Ordering::Acquire) {
            return None;
        }
        // The store has a lock of its own, which is not taken while this one is held.
        let matching: Vec<Behind> = {
            let behind = self.shared.behind.lock();
            let matches = |viewer: &Viewer| match viewer {
                Viewer::User(name) => name == user,
                Viewer::Endpoint(name) => name == endpoint,
            };
            let behind = behind.iter().filter(|(viewer, _)| matches(viewer));
            behind.map(|(_, behind)| behind.clone()).collect()
        };
        let positions = matching.iter().filter_map(|behind| behind.position(store));
        positions.reduce(Position::older)
    }

    /// Returns a receiver that changes whenever a view moves.
    pub(crate) fn moves(&self) -> watch::Receiver<()> {
        self.shared.moves.subscribe()
    }
}
