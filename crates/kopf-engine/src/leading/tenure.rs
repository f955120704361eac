//! One uninterrupted holding of a Lease by this process, and the passes of what it permits.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Numbers of tenures, to tell them apart. Zero is none.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// One uninterrupted holding of a Lease. It ends in one of two ways: it is released, when everything
/// that it permitted has ended, or it is lost at once.
#[derive(Debug)]
pub(crate) struct Tenure {
    number: u32,
    epoch: Instant,
    /// Milliseconds from the epoch; `u64::MAX` for a tenure without an end.
    valid_until: AtomicU64,
    /// Nothing new begins.
    ending: CancellationToken,
    /// Nothing may be written any longer.
    lost: CancellationToken,
    passes: TaskTracker,
}

impl Tenure {
    /// Returns a tenure that does not depend on a Lease.
    pub(crate) fn endless() -> Self {
        Self::new(u64::MAX)
    }

    /// Returns a tenure that is valid until this moment, unless it is renewed.
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

    /// Returns `true` if something new may begin.
    pub(crate) fn admits(&self) -> bool {
        !self.ending.is_cancelled() && self.is_valid()
    }

    /// Begins the release: nothing new begins, what runs may end and be written.
    pub(crate) fn end(&self) {
        self.ending.cancel();
    }

    /// Ends the tenure at once: nothing may be written any longer.
    pub(crate) fn lose(&self) {
        self.lost.cancel();
        self.ending.cancel();
    }

    /// Returns `true` if nothing holds a pass.
    pub(crate) fn is_drained(&self) -> bool {
        self.passes.is_empty()
    }

    /// Waits until nothing holds a pass. Cancel-safe.
    pub(crate) async fn drained(&self) {
        self.passes.wait().await;
    }

    /// Returns a pass; `None` if nothing new may begin.
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

/// The permission to act on an object under a tenure. The tenure is not released while passes exist.
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

    /// Returns `true` if a handler may begin now.
    pub(crate) fn may_begin(&self) -> bool {
        self.tenure.admits()
    }

    /// Returns `true` if a patch may be sent now.
    pub(crate) fn may_write(&self) -> bool {
        self.tenure.is_valid()
    }

    /// Waits until nothing new may begin. Cancel-safe.
    pub(crate) async fn ended(&self) {
        self.tenure.ending.cancelled().await;
    }

    /// Polls the work for as long as patches may be sent; `None` if the tenure ends before. The clock
    /// is read before every poll: a process that was frozen sends nothing when it continues.
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
    async fn a_tenure_that_is_not_renewed_permits_nothing() {
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
    async fn an_ending_tenure_lets_results_be_written() {
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
    async fn work_is_cut_off_when_the_tenure_ends() {
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
        let sent = pass.fenced(async { panic!("it must not be sent") }).await;
        assert_eq!(sent, None::<()>);
    }

    #[tokio::test(start_paused = true)]
    async fn without_leases_there_is_no_end() {
        let pass = Arc::new(Tenure::endless()).enter().unwrap();
        advance(Duration::from_secs(1_000_000_000)).await;
        assert!(pass.may_begin() && pass.may_write());
    }
}
