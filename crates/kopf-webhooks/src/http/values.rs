//! The memory for what is made of texts.
//!
//! It is taken all at once, after the text is there, and given back with the answer: who has got it
//! does not wait for anybody but the operator.

use std::sync::Arc;

use kopf_core::admission::Unreadable;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::cost::{cost, upper_bound};
use super::rejection::Rejection;
use crate::Limits;

/// What is made of a review can be so large without asking: there are not more of them at once than
/// there are turns.
const SMALL: usize = 64 * 1024;

/// How many times the size of the largest text what is made of it can have in any case. Objects of
/// Kubernetes can become 30 times as large, but they are not as large as texts can be.
const UNFOLDING: usize = 16;

/// The memory for what is made of texts.
#[derive(Debug)]
pub(super) struct Values {
    common: Arc<Semaphore>,
    /// For those who have been served before; as much again as a quarter of the other.
    reserve: Arc<Semaphore>,
    /// How much one review can have.
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

    /// What is needed for this text, if that is worth to be counted; waits until there is as much.
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
        // It is worth to know it exactly.
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
        // It is never closed.
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
    async fn what_is_made_of_texts_is_counted() {
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
    async fn there_is_a_reserve_for_those_who_are_known() {
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
