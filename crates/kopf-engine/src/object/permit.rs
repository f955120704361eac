//! The permit of one object, released while its handlers run.

use std::pin::pin;
use std::time::Duration;

use tokio::time::sleep;

use crate::permits::{Permit, Permits, Priority};
use crate::queueing::Mailbox;

/// Time after which a slow request or storage releases the permit for other objects.
const SLOW: Duration = Duration::from_secs(1);

/// A permit for planning and writing, which can be released and acquired again.
#[derive(Debug)]
pub(crate) struct ObjectPermit {
    permits: Permits,
    permit: Option<Permit>,
}

impl ObjectPermit {
    /// Acquires a permit for an object with events. An object that changes while waiting precedes
    /// objects that are only listed. `listed`: some listed entries are already taken from the
    /// mailbox.
    pub(super) async fn acquire(permits: &Permits, mailbox: &Mailbox, listed: bool) -> Self {
        loop {
            let priority = mailbox.priority(listed);
            tokio::select! {
                biased;
                permit = permits.acquire(priority) => {
                    let (permits, permit) = (permits.clone(), Some(permit));
                    return Self { permits, permit };
                }
                () = mailbox.arrival(), if priority == Priority::Listed => {}
            }
        }
    }

    /// Awaits the future, and releases the permit if it is slow.
    pub(super) async fn during<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            result = &mut work => result,
            () = sleep(SLOW) => {
                self.release();
                work.await
            }
        }
    }

    /// Releases the permit.
    pub(crate) fn release(&mut self) {
        self.permit = None;
    }

    /// Acquires the permit again, unless it is held. Takes precedence over other objects, because
    /// results of handlers are lost until they are written.
    pub(crate) async fn reacquire(&mut self) {
        if self.permit.is_none() {
            self.permit = Some(self.permits.acquire(Priority::Begun).await);
        }
    }
}
