//! An uninterrupted period of holding a Lease, and the passes issued under it.
//!
//! A tenure that is not renewed in time is *overdue*: handlers do not start, and patches wait. Before
//! other replicas can take over, it is *suspended*: daemons are stopped, too. It continues when the
//! renewal succeeds, and ends when another holder is seen.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
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
    /// Daemons are stopped until the tenure is renewed.
    is_suspended: AtomicBool,
    /// Notified when the tenure is renewed.
    renewed: Notify,
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
            is_suspended: AtomicBool::new(false),
            renewed: Notify::new(),
            ending: CancellationToken::new(),
            lost: CancellationToken::new(),
            passes,
        }
    }

    /// Returns the number of the tenure, unique in the process.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Extends the validity, and continues the waiting work.
    pub(crate) fn renew(&self, end: Instant) {
        let end = end.saturating_duration_since(self.epoch);
        self.valid_until.store(milliseconds(end), Ordering::Release);
        self.renewed.notify_waiters();
    }

    /// Stops the daemons until [`resume`](Self::resume).
    pub(crate) fn suspend(&self) {
        self.is_suspended.store(true, Ordering::Release);
    }

    /// Permits daemons to start again.
    pub(crate) fn resume(&self) {
        self.is_suspended.store(false, Ordering::Release);
    }

    /// Returns `true` if daemons must be stopped.
    pub(crate) fn is_suspended(&self) -> bool {
        self.is_suspended.load(Ordering::Acquire)
    }

    /// Waits until handlers and daemons may start; `false` if the tenure ends. Cancel-safe.
    pub(crate) async fn begin(&self) -> bool {
        self.valid_unless(&self.ending).await
    }

    /// Returns `true` while the Lease is valid by the monotonic clock of this process.
    pub(crate) fn is_valid(&self) -> bool {
        let end = self.valid_until.load(Ordering::Acquire);
        end == u64::MAX || (!self.lost.is_cancelled() && milliseconds(self.epoch.elapsed()) < end)
    }

    /// Returns `true` if passes are issued, even while the tenure is overdue.
    pub(crate) fn admits(&self) -> bool {
        !self.ending.is_cancelled()
    }

    /// Waits until the tenure is valid. Returns `false` if the token is cancelled. Cancel-safe.
    async fn valid_unless(&self, cancelled: &CancellationToken) -> bool {
        loop {
            let mut renewed = pin!(self.renewed.notified());
            renewed.as_mut().enable();
            if cancelled.is_cancelled() {
                return false;
            }
            if self.is_valid() {
                return true;
            }
            cancelled.run_until_cancelled(renewed).await;
        }
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

    /// Waits until a handler may start; `false` if none may start any more. Cancel-safe.
    pub(crate) async fn begin(&self) -> bool {
        self.tenure.begin().await
    }

    /// Returns the tenure, which can be released while it is referenced.
    pub(crate) fn tenure(&self) -> &Arc<Tenure> {
        &self.tenure
    }

    /// Waits until a patch may be sent; `false` if the Lease is lost. Cancel-safe.
    pub(crate) async fn write(&self) -> bool {
        self.tenure.valid_unless(&self.tenure.lost).await
    }

    /// Returns `true` if no more handlers may start.
    pub(crate) fn is_ending(&self) -> bool {
        self.tenure.ending.is_cancelled()
    }

    /// Returns `true` if no more patches may be sent.
    pub(crate) fn is_lost(&self) -> bool {
        self.tenure.lost.is_cancelled()
    }

    /// Waits until no more handlers may start. Cancel-safe.
    pub(crate) async fn ended(&self) {
        self.tenure.ending.cancelled().await;
    }

    /// Polls the future while patches may be sent; `None` if the Lease is lost first. The clock is
    /// read before every poll, so that a process sends nothing after it was frozen.
    pub(crate) async fn fenced<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        let mut lost = pin!(self.tenure.lost.cancelled());
        while self.write().await {
            let polled = std::future::poll_fn(|context| {
                if lost.as_mut().poll(context).is_ready() || !self.tenure.is_valid() {
                    return Poll::Ready(None);
                }
                work.as_mut().poll(context).map(Some)
            });
            if let Some(done) = polled.await {
                return Some(done);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use tokio::time::{advance, sleep};

    use super::*;

    fn soon() -> Arc<Tenure> {
        Arc::new(Tenure::until(Instant::now() + Duration::from_secs(10)))
    }

    /// Returns the result of a future that does not have to wait.
    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        future.now_or_never()
    }

    #[tokio::test(start_paused = true)]
    async fn an_overdue_tenure_waits_for_its_renewal() {
        let tenure = soon();
        let pass = tenure.enter().unwrap();
        advance(Duration::from_secs(9)).await;
        assert_eq!(now(pass.begin()), Some(true));
        advance(Duration::from_secs(1)).await;
        assert_eq!((now(pass.begin()), now(pass.write())), (None, None));
        assert!(tenure.enter().is_some(), "it is not lost");
        let renewing = async { tenure.renew(Instant::now() + Duration::from_secs(10)) };
        let (begun, written, ()) = tokio::join!(pass.begin(), pass.write(), renewing);
        assert!(begun && written);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_work_ends_with_the_tenure() {
        let tenure = soon();
        let pass = tenure.enter().unwrap();
        advance(Duration::from_secs(10)).await;
        let (begun, written, ()) = tokio::join!(pass.begin(), pass.write(), async {
            tenure.lose();
        });
        assert!(!begun && !written);
        assert!(tenure.enter().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn an_ending_tenure_permits_writes() {
        let tenure = soon();
        let pass = tenure.enter().unwrap();
        tenure.end();
        pass.ended().await;
        assert!(pass.is_ending() && !pass.is_lost());
        assert!(!pass.begin().await && pass.write().await);
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
        let sending = pass.fenced(async { panic!("must not be polled") });
        let (sent, ()) = tokio::join!(sending, async { tenure.lose() });
        assert_eq!(sent, None::<()>);
    }

    #[tokio::test(start_paused = true)]
    async fn fenced_work_continues_after_a_late_renewal() {
        let tenure = soon();
        let pass = tenure.enter().unwrap();
        let sending = pass.fenced(async {
            sleep(Duration::from_secs(11)).await;
            Instant::now()
        });
        let renewed = async {
            sleep(Duration::from_secs(15)).await;
            tenure.renew(Instant::now() + Duration::from_secs(1));
            Instant::now()
        };
        let (sent, renewed) = tokio::join!(sending, renewed);
        assert_eq!(sent, Some(renewed), "not before the renewal");
    }

    #[tokio::test(start_paused = true)]
    async fn endless_tenures_do_not_expire() {
        let pass = Arc::new(Tenure::endless()).enter().unwrap();
        advance(Duration::from_secs(1_000_000_000)).await;
        assert!(pass.begin().await && pass.write().await);
    }
}
