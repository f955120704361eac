//! Memory permits for the parsed values of reviews.
//!
//! They are taken at once for a complete body, and released with the response, so that holders never wait
//! for clients.

use std::sync::Arc;

use kopf_core::admission::Unreadable;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::cost::{cost, upper_bound};
use super::rejection::Rejection;
use crate::Limits;

/// Size of values that need no permits: their number is bounded by the limit of concurrent reviews.
const SMALL: usize = 64 * 1024;

/// Guaranteed size of the values, in multiples of the limit of bodies. Values of Kubernetes objects can be
/// 30 times as large as their bodies, but these are smaller than the limit.
const UNFOLDING: usize = 16;

/// Shared memory for parsed values.
#[derive(Debug)]
pub(super) struct Values {
    common: Arc<Semaphore>,
    /// Reserve for known clients: a quarter of the common memory.
    reserve: Arc<Semaphore>,
    /// Limit of one review.
    most: usize,
}

impl Values {
    pub(super) fn new(limits: &Limits) -> Self {
        let most = limits.memory.max(limits.body.saturating_mul(UNFOLDING));
        let most = most.min(u32::MAX as usize).min(Semaphore::MAX_PERMITS);
        Self {
            common: Arc::new(Semaphore::new(most)),
            reserve: Arc::new(Semaphore::new(most / 4)),
            most,
        }
    }

    /// Takes the permits for a body, unless its values are small; waits until they are available.
    pub(super) async fn take(
        &self,
        text: &[u8],
        is_known: bool,
    ) -> Result<Option<OwnedSemaphorePermit>, Rejection> {
        let bound = upper_bound(text);
        if bound <= SMALL {
            return Ok(None);
        }
        if bound <= self.most / 8
            && let Ok(permits) = u32::try_from(bound)
            && let Ok(permit) = Arc::clone(&self.common).try_acquire_many_owned(permits)
        {
            return Ok(Some(permit));
        }
        // The exact estimate takes longer.
        let cost = cost(text);
        let permits = u32::try_from(cost).ok().filter(|_| cost <= self.most);
        let permits = permits.ok_or_else(|| {
            let reason = Unreadable::TooManyValues { limit: self.most };
            Rejection::unreadable(reason, text)
        })?;
        let common = Arc::clone(&self.common).acquire_many_owned(permits);
        let permit = if is_known && cost <= self.most / 4 {
            let reserve = Arc::clone(&self.reserve).acquire_many_owned(permits);
            tokio::select! {
                biased;
                permit = common => permit,
                permit = reserve => permit,
            }
        } else {
            common.await
        };
        // The semaphores are never closed.
        permit.map(Some).map_err(|_| Rejection::Busy)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn dense(count: usize) -> String {
        format!("[{}0]", "{\"\":0},".repeat(count))
    }

    fn values(body: usize, memory: usize) -> Values {
        Values::new(&Limits {
            body,
            memory,
            ..Limits::default()
        })
    }

    #[tokio::test(start_paused = true)]
    async fn parsed_values_are_counted() {
        let values = values(100_000, 400_000);
        let small = dense(10);
        assert!(
            values
                .take(small.as_bytes(), false)
                .await
                .unwrap()
                .is_none()
        );
        let refused = values.take(dense(3_000).as_bytes(), true).await;
        let reason = Unreadable::TooManyValues { limit: 1_600_000 };
        assert!(
            matches!(refused, Err(Rejection::Unreadable { reason: seen, .. }) if seen == reason)
        );

        let text = dense(1_400);
        let one = values.take(text.as_bytes(), false).await.unwrap().unwrap();
        assert!(one.num_permits() > 1_000_000, "{}", one.num_permits());
        let second = timeout(SECOND, values.take(text.as_bytes(), true)).await;
        assert!(second.is_err(), "there is no place for two");
        drop(one);
        let second = values.take(text.as_bytes(), false).await.unwrap();
        assert!(second.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn known_clients_have_a_reserve() {
        let values = values(100_000, 400_000);
        let large = dense(2_000);
        let _large = values.take(large.as_bytes(), false).await.unwrap().unwrap();
        let text = dense(400);
        for (is_known, is_served) in [(false, false), (true, true)] {
            let taking = timeout(SECOND, values.take(text.as_bytes(), is_known));
            assert_eq!(taking.await.is_ok(), is_served);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn long_strings_are_not_many_values() {
        let values = values(100_000, 0);
        let long = format!("\"{}\"", ",{[".repeat(33_000));
        let taken = values.take(long.as_bytes(), false).await.unwrap().unwrap();
        assert_eq!(taken.num_permits(), long.len());
    }
}
