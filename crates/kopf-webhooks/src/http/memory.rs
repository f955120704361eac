//! Memory permits for reviews: for their bodies and for their [parsed values](super::values).
//!
//! The memory is shared by all connections, and a few of them must not exhaust it. Each connection has a
//! small amount of its own, a part is reserved for known clients, and if a body waits for too long,
//! a connection is closed that holds much and stalls, or has the lowest rank.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use kopf_core::sync::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::activity::Activity;
use super::rejection::Rejection;
use super::values::Values;
use crate::Limits;

/// Bytes of each request that are not taken from the shared memory: most reviews are smaller.
pub(super) const OWN: usize = 64 * 1024;

/// Number of concurrent requests of one connection with memory of their own.
const OWNERS: usize = 4;

/// Time of waiting for memory before another connection is closed.
const GRACE: Duration = Duration::from_millis(500);

/// Shared memory of a server.
#[derive(Debug)]
pub(super) struct Pool {
    texts: Arc<Semaphore>,
    /// Reserve for bodies of known clients.
    reserve: Arc<Semaphore>,
    values: Values,
    clients: Mutex<Clients>,
}

#[derive(Debug, Default)]
struct Clients {
    all: Vec<Arc<Activity>>,
    /// Time of the last closed connection.
    relieved: Option<Instant>,
}

/// Memory of one connection: its own and the shared one.
#[derive(Debug)]
pub(super) struct Memory {
    own: Arc<Semaphore>,
    pool: Arc<Pool>,
    activity: Arc<Activity>,
}

/// Permits held by one body.
#[derive(Debug, Default)]
pub(super) struct Held {
    own: Option<OwnedSemaphorePermit>,
    texts: Option<OwnedSemaphorePermit>,
    reserve: Option<OwnedSemaphorePermit>,
    /// Connection that is charged for the incomplete body.
    counted: Option<Arc<Activity>>,
}

impl Pool {
    pub(super) fn new(limits: &Limits) -> Self {
        // At least one review must fit.
        let texts = limits.memory.max(limits.body).min(Semaphore::MAX_PERMITS);
        let reserve = (texts / 4).min(texts - limits.body.min(texts));
        Self {
            texts: Arc::new(Semaphore::new(texts - reserve)),
            reserve: Arc::new(Semaphore::new(reserve)),
            values: Values::new(limits),
            clients: Mutex::default(),
        }
    }

    /// Closes a connection in favour of one that waits for this many bytes.
    fn relieve(&self, waiting: &Arc<Activity>, bytes: usize) {
        let mut clients = self.clients.lock();
        let now = Instant::now();
        // The memory of the last closed connection must be released first.
        if clients.relieved.is_some_and(|last| now - last < GRACE) {
            return;
        }
        let candidates = clients.all.iter().filter(|other| {
            let is_worth = other.holding() >= bytes && !Arc::ptr_eq(other, waiting);
            let is_weaker = other.rank() <= waiting.rank();
            // Reviews under way on the same connection would be lost.
            let is_needed = other.rank() > 0 && other.silence().is_none();
            is_worth && !is_needed && (is_weaker || other.is_stalled())
        });
        let order = |other: &Activity| (other.is_stalled(), Reverse(other.rank()), other.holding());
        let Some(worst) = candidates.max_by_key(|other| order(other)) else {
            return;
        };
        tracing::debug!("A connection to the webhook server is closed: its bodies hold memory.");
        worst.dismiss();
        clients.relieved = Some(now);
    }
}

impl Memory {
    pub(super) fn new(pool: Arc<Pool>, activity: Arc<Activity>) -> Self {
        pool.clients.lock().all.push(Arc::clone(&activity));
        Self {
            own: Arc::new(Semaphore::new(OWN * OWNERS)),
            pool,
            activity,
        }
    }

    /// Takes memory for another piece of a body; waits until it is available.
    pub(super) async fn take(&self, bytes: usize, held: &mut Held) {
        let Ok(permits) = u32::try_from(bytes) else {
            // Frames of 4 GiB are above any limit.
            return;
        };
        self.activity.fed();
        let owned = permits_of(held.own.as_ref());
        if owned + bytes <= OWN
            && let Ok(permit) = Arc::clone(&self.own).try_acquire_many_owned(permits)
        {
            return merge(&mut held.own, permit);
        }
        held.count(&self.activity);
        if self.try_take(permits, held) {
            return;
        }
        let _starved = self.activity.starved();
        let pool = &*self.pool;
        let taking = Arc::clone(&pool.texts).acquire_many_owned(permits);
        tokio::pin!(taking);
        loop {
            match timeout(GRACE, &mut taking).await {
                Ok(Ok(permit)) => {
                    held.add(&self.activity, bytes);
                    return merge(&mut held.texts, permit);
                }
                // The semaphore is never closed.
                Ok(Err(_)) => return,
                Err(_) if self.try_reserve(permits, held) => return,
                Err(_) => pool.relieve(&self.activity, bytes),
            }
        }
    }

    fn try_take(&self, permits: u32, held: &mut Held) -> bool {
        match Arc::clone(&self.pool.texts).try_acquire_many_owned(permits) {
            Ok(permit) => {
                held.add(&self.activity, permit.num_permits());
                merge(&mut held.texts, permit);
                true
            }
            Err(_) => self.try_reserve(permits, held),
        }
    }

    fn try_reserve(&self, permits: u32, held: &mut Held) -> bool {
        if self.activity.rank() == 0 {
            return false;
        }
        let reserve = Arc::clone(&self.pool.reserve);
        let Ok(permit) = reserve.try_acquire_many_owned(permits) else {
            return false;
        };
        held.add(&self.activity, permit.num_permits());
        merge(&mut held.reserve, permit);
        true
    }

    /// Takes memory for the parsed values of a body; waits until it is available.
    pub(super) async fn unfold(
        &self,
        text: &[u8],
    ) -> Result<Option<OwnedSemaphorePermit>, Rejection> {
        let is_known = self.activity.rank() > 0;
        self.pool.values.take(text, is_known).await
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let mut clients = self.pool.clients.lock();
        clients
            .all
            .retain(|other| !Arc::ptr_eq(other, &self.activity));
    }
}

impl Held {
    /// Marks the body as complete: the connection is not charged for it any more.
    pub(super) fn complete(&mut self) {
        if let Some(activity) = self.counted.take() {
            activity.release(permits_of(self.texts.as_ref()) + permits_of(self.reserve.as_ref()));
        }
    }

    fn count(&mut self, activity: &Arc<Activity>) {
        self.counted.get_or_insert_with(|| Arc::clone(activity));
    }

    fn add(&self, activity: &Activity, bytes: usize) {
        debug_assert!(self.counted.is_some(), "it is counted before");
        activity.hold(bytes);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.complete();
    }
}

fn permits_of(held: Option<&OwnedSemaphorePermit>) -> usize {
    held.map_or(0, OwnedSemaphorePermit::num_permits)
}

fn merge(all: &mut Option<OwnedSemaphorePermit>, permit: OwnedSemaphorePermit) {
    match all {
        Some(all) => all.merge(permit),
        None => *all = Some(permit),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns a pool of 300,000 bytes for all clients, and 100,000 for known ones.
    fn pool() -> Arc<Pool> {
        Arc::new(Pool::new(&Limits {
            body: 100_000,
            memory: 400_000,
            ..Limits::default()
        }))
    }

    fn client(pool: &Arc<Pool>) -> (Memory, Arc<Activity>) {
        let activity = Arc::new(Activity::new());
        let memory = Memory::new(Arc::clone(pool), Arc::clone(&activity));
        (memory, activity)
    }

    /// Returns the permits, if they are granted within this time.
    async fn held(memory: &Memory, bytes: usize, time: Duration) -> Option<Held> {
        let mut held = Held::default();
        let taking = timeout(time, memory.take(bytes, &mut held)).await;
        taking.is_ok().then_some(held)
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_connections_with_much_memory_are_closed() {
        let pool = pool();
        let (small, (large, large_one), (busy, busy_one)) =
            (client(&pool), client(&pool), client(&pool));
        let _small = held(&small.0, 70_000, SECOND).await.unwrap();
        let larger = held(&large, 90_000, SECOND).await.unwrap();
        let mut complete = held(&busy, 140_000, SECOND).await.unwrap();
        complete.complete();
        assert_eq!(large_one.holding(), 90_000);
        assert_eq!(busy_one.holding(), 0, "no client waits for it");

        tokio::time::sleep(2 * SECOND).await;
        let leaving = async {
            let _ = timeout(10 * SECOND, large_one.dismissed()).await;
            drop(larger);
        };
        let (waiting, _) = client(&pool);
        let (taken, ()) = tokio::join!(held(&waiting, 80_000, 5 * SECOND), leaving);
        assert!(taken.is_some());
        assert!(!small.1.is_dismissed() && !busy_one.is_dismissed());
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_clients_do_not_displace_active_ones() {
        let pool = pool();
        let (known, known_one) = client(&pool);
        known_one.review().succeeded();
        let _held = held(&known, 290_000, SECOND).await.unwrap();
        let (waiting, waiting_one) = client(&pool);
        let feeding = async {
            for _ in 0..20 {
                tokio::time::sleep(SECOND / 10).await;
                known_one.fed();
            }
        };
        let (taken, ()) = tokio::join!(held(&waiting, 80_000, 2 * SECOND), feeding);
        assert!(taken.is_none() && !known_one.is_dismissed());
        // A client of a higher rank closes it.
        for _ in 0..4 {
            waiting_one.review().succeeded();
        }
        let _reserve = held(&waiting, 90_000, SECOND).await.unwrap();
        assert!(held(&waiting, 80_000, SECOND).await.is_none());
        assert!(known_one.is_dismissed());
    }

    #[tokio::test(start_paused = true)]
    async fn reviews_under_way_of_known_clients_are_not_displaced() {
        let pool = pool();
        let (known, known_one) = client(&pool);
        known_one.review().succeeded();
        let _held = held(&known, 290_000, SECOND).await.unwrap();
        let (waiting, _) = client(&pool);
        let review = known_one.review();
        assert!(held(&waiting, 80_000, 5 * SECOND).await.is_none());
        assert!(!known_one.is_dismissed());
        drop(review);
        assert!(held(&waiting, 80_000, 5 * SECOND).await.is_none());
        assert!(known_one.is_dismissed());
    }

    #[tokio::test(start_paused = true)]
    async fn known_clients_have_a_reserve() {
        let pool = pool();
        let (hog, _) = client(&pool);
        let _held = held(&hog, 300_000, SECOND).await.unwrap();
        let (memory, activity) = client(&pool);
        assert!(held(&memory, 80_000, GRACE / 2).await.is_none());
        activity.review().succeeded();
        assert!(held(&memory, 80_000, GRACE / 2).await.is_some());
        assert_eq!(pool.reserve.available_permits(), 100_000);
    }

    #[tokio::test(start_paused = true)]
    async fn connections_have_memory_of_their_own() {
        let pool = pool();
        let (hog, _) = client(&pool);
        let _held = held(&hog, 300_000, SECOND).await.unwrap();
        let (memory, _) = client(&pool);
        let mut all = Vec::new();
        for _ in 0..OWNERS {
            all.push(held(&memory, OWN, GRACE / 2).await.unwrap());
        }
        assert!(held(&memory, 1, GRACE / 2).await.is_none());
        drop(all);
        let mut one = held(&memory, OWN, GRACE / 2).await.unwrap();
        let more = memory.take(1, &mut one);
        assert!(timeout(GRACE / 2, more).await.is_err(), "not for one alone");
    }

    #[test]
    fn one_review_fits_into_any_limits() {
        for (body, memory) in [(100, 0), (100, 100), (100, 120), (0, 0)] {
            let pool = Pool::new(&Limits {
                body,
                memory,
                ..Limits::default()
            });
            assert!(pool.texts.available_permits() >= body);
        }
    }
}
