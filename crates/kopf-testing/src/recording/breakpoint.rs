//! Writes that are stopped on their way, so that a test can do something at that very moment.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio_util::sync::CancellationToken;

/// When a write is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Moment {
    /// Before it reaches the server: nothing has happened yet.
    Before,
    /// After the server has done it: the operator has not got the answer yet.
    After,
}

/// A write that is to be stopped. It goes on when this is dropped.
#[derive(Debug)]
#[must_use = "the write goes on as soon as the breakpoint is dropped"]
pub struct Breakpoint {
    point: Arc<Point>,
}

impl Breakpoint {
    /// Waits until the write is there.
    pub async fn reached(&self) {
        self.point.reached.cancelled().await;
    }

    /// Whether the write is there.
    pub fn is_reached(&self) -> bool {
        self.point.reached.is_cancelled()
    }

    /// Lets the write go on.
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
    /// How many writes were begun.
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

    /// The number of the write that begins now.
    pub(super) fn begin(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Waits for as long as a breakpoint holds this write at this moment.
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
