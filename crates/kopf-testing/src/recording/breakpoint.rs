//! Writes that are held back, so that a test can act at that moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio_util::sync::CancellationToken;

/// The moment at which a write is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Moment {
    /// Before it reaches the server.
    Before,
    /// After the server executed it, before the operator receives the response.
    After,
}

/// A breakpoint for a write. Dropping it releases the write.
#[derive(Debug)]
#[must_use = "the write is released when the breakpoint is dropped"]
pub struct Breakpoint {
    point: Arc<Point>,
}

impl Breakpoint {
    /// Waits until the write reaches the breakpoint.
    pub async fn reached(&self) {
        self.point.reached.cancelled().await;
    }

    /// Returns `true` if the write has reached the breakpoint.
    pub fn is_reached(&self) -> bool {
        self.point.reached.is_cancelled()
    }

    /// Releases the write.
    pub fn release(self) {}
}

impl Drop for Breakpoint {
    fn drop(&mut self) {
        self.point.released.cancel();
    }
}

#[derive(Debug)]
struct Point {
    number: u64,
    moment: Moment,
    reached: CancellationToken,
    released: CancellationToken,
}

/// All breakpoints of one recorder.
#[derive(Debug, Default)]
pub(super) struct Breakpoints {
    /// The number of started writes.
    begun: AtomicU64,
    points: Mutex<Vec<Weak<Point>>>,
}

impl Breakpoints {
    pub(super) fn set(&self, nth: u64, moment: Moment) -> Breakpoint {
        let point = Arc::new(Point {
            number: self.begun.load(Ordering::SeqCst) + nth,
            moment,
            reached: CancellationToken::new(),
            released: CancellationToken::new(),
        });
        let mut points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
        points.retain(|point| point.strong_count() > 0);
        points.push(Arc::downgrade(&point));
        Breakpoint { point }
    }

    /// Returns the number of a new write.
    pub(super) fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Waits while a breakpoint holds this write at this moment.
    pub(super) async fn pass(&self, number: u64, moment: Moment) {
        let point = {
            let points = self.points.lock().unwrap_or_else(PoisonError::into_inner);
            points
                .iter()
                .filter_map(Weak::upgrade)
                .find(|point| point.number == number && point.moment == moment)
        };
        if let Some(point) = point {
            point.reached.cancel();
            point.released.cancelled().await;
        }
    }
}
