//! An uninterrupted period of holding a Lease, and the passes issued under it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The next tenure number. Zero means no tenure.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// An uninterrupted period of holding a Lease. It ends by release, after all passes are dropped, or
/// by loss, which is immediate.
#[derive(Debug)]
pub(crate) struct Tenure {
    number: u32,
    epoch: Instant,
    /// Milliseconds since the epoch; `u64::MAX` for an unlimited tenure.
    valid_until: AtomicU64,
    /// Cancelled when no more passes are issued.
    ending: CancellationToken,
    /// Cancelled when no more writes are allowed.
    lost: CancellationToken,
    passes: TaskTracker,
}

impl Tenure {
    /// Returns a tenure that does not depend on a Lease.
    pub(crate) fn endless() -> Self {
        Self::new(u64::MAX)
    }

    /// Returns a tenure that is valid until `end`, unless it is renewed.
    pub(crate) fn until(end: Instant) -> Self {
        let tenure = Self::new(0);
        tenure.renew(end);
        tenure
    }

    fn new(valid_until: u64) -> Self {
        let passes = TaskTracker::new();
        // A closed tracker can be awaited at any time.
        passes.close();
        Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            epoch: Instant::now(),
            valid_until: AtomicU64::new(valid_until),
            ending: CancellationToken::new(),
            lost: CancellationToken::new(),
            passes,
        }
    }

    /// Returns the number of the tenure, unique in the process.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Extends the validity.
    pub(crate) fn renew(&self, end: Instant) {
        let end = end.saturating_duration_since(self.epoch);
        self.valid_until.store(milliseconds(end), Ordering::Release);
    }

    /// Returns `true` while the Lease is valid by the monotonic clock of this process.
    pub(crate) fn is_valid(&self) -> bool {
        let end = self.valid_until.load(Ordering::Acquire);
        end == u64::MAX || (!self.lost.is_cancelled() && milliseconds(self.epoch.elapsed()) < end)
    }

    /// Returns `true` if passes are issued.
    pub(crate) fn admits(&self) -> bool {
        !self.ending.is_cancelled() && self.is_valid()
    }

    /// Begins the release: no more passes are issued. Running handlers may finish and write.
    pub(crate) fn end(&self) {
        self.ending.cancel();
    }

    /// Ends the tenure immediately: no more writes are allowed.
    pub(crate) fn lose(&self) {
        self.lost.cancel();
        self.ending.cancel();
    }

    /// Returns `true` if no passes exist.
    pub(crate) fn is_drained(&self) -> bool {
        self.passes.is_empty()
    }

    /// Waits until no passes exist. Cancel-safe.
    pub(crate) async fn drained(&self) {
        self.passes.wait().await;
    }

    /// Returns a pass; `None` if the tenure ends.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Pass> {
        let token = self.passes.token();
        self.admits().then(|| Pass {
            tenure: Arc::clone(self),
            _token: token,
        })
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX - 1)
}

/// A permission to act on an object under a tenure. The tenure is not released while passes exist.
#[derive(Clone, Debug)]
pub(crate) struct Pass {
    tenure: Arc<Tenure>,
    _token: TaskTrackerToken,
}

impl Pass {
    /// Returns the number of the tenure.
    pub(crate) fn number(&self) -> u32 {
        self.tenure.number()
    }

    /// Returns `true` if a handler may start now.
    pub(crate) fn may_begin(&self) -> bool {
        self.tenure.admits()
    }

    /// Returns `true` if a patch may be sent now.
    pub(crate) fn may_write(&self) -> bool {
        self.tenure.is_valid()
    }

    /// Waits until no more handlers may start. Cancel-safe.
    pub(crate) async fn ended(&self) {
        self.tenure.ending.cancelled().await;
    }

    /// Polls the future while patches may be sent; `None` if the tenure ends first. The clock is
    /// read before every poll, so that a process sends nothing after it was frozen.
    pub(crate) async fn fenced<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let mut lost = pin!(self.tenure.lost.cancelled());
        std::future::poll_fn(|context| {
            if lost.as_mut().poll(context).is_ready() || !self.may_write() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(context).map(Some)
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{advance, sleep};

    use super::*;

    fn soon() -> Arc<Tenure> {
        Arc::new(Tenure::until(Instant::now() + Duration::from_secs(10)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_tenure_without_renewal_expires() {
        let tenure = soon();
        let pass = tenure.enter().unwrap();
        advance(Duration::from_secs(9)).await;
        assert!(pass.may_begin() && pass.may_write());
        tenure.renew(Instant::now() + Duration::from_secs(10));
        advance(Duration::from_secs(9)).await;
        assert!(pass.may_write());
        advance(Duration::from_secs(1)).await;
        assert!(!pass.may_begin() && !pass.may_write());
        assert!(tenure.enter().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_ending_tenure_permits_writes() {
        let tenure = soon();
        let pass = tenure.enter().unwrap();
        tenure.end();
        pass.ended().await;
        assert!(!pass.may_begin() && pass.may_write());
        assert!(tenure.enter().is_none());
        assert!(!tenure.is_drained());
        tokio::join!(tenure.drained(), async { drop(pass) });
    }

    #[tokio::test(start_paused = true)]
    async fn fenced_work_is_dropped_when_the_tenure_ends() {
        let tenure = soon();
        let pass = tenure.enter().unwrap();
        assert_eq!(pass.fenced(async { 1 }).await, Some(1));
        let cut = pass.fenced(sleep(Duration::from_secs(60)));
        let (cut, ()) = tokio::join!(cut, async { tenure.lose() });
        assert_eq!(cut, None);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_polled_after_a_freeze() {
        let tenure = soon();
        let pass = tenure.enter().unwrap();
        advance(Duration::from_secs(3600)).await;
        let sent = pass.fenced(async { panic!("must not be polled") }).await;
        assert_eq!(sent, None::<()>);
    }

    #[tokio::test(start_paused = true)]
    async fn endless_tenures_do_not_expire() {
        let pass = Arc::new(Tenure::endless()).enter().unwrap();
        advance(Duration::from_secs(1_000_000_000)).await;
        assert!(pass.may_begin() && pass.may_write());
    }
}
